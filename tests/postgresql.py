"""A PostgreSQL of the tests' own: a cluster in a temporary folder, on a Unix socket, run by an unprivileged user.

@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running

@pytest.mark.needs("PostgreSQL")
def test_it(postgresql: Cluster) -> None:
    url = postgresql.create_database()
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

__all__ = ["Cluster", "cluster", "programs"]

SETTINGS = {"listen_addresses": "", "fsync": "off", "max_connections": "200", "unix_socket_permissions": "0777"}


@cache
def programs() -> Path | None:
    """Return the folder of the server's programs, which Debian does not put on the PATH; None without a server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


class Cluster:
    """A server that runs.

    Attributes:
        folder: its folder, with its socket.
    """

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder = folder
        self._user = user
        self._numbers = itertools.count(1)
        self._server: subprocess.Popen[bytes] | None = None

    def create_database(self) -> str:
        """Create an empty database; return its URL."""
        name = f"test_{next(self._numbers)}"
        self._run("createdb", "-h", str(self.folder), "-U", "deep", name)
        return f"postgresql://deep@/{name}?host={self.folder}"

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = [option for key, value in SETTINGS.items() for option in ("-c", f"{key}={value}")]
        command = [self._program("postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), *options]
        is_ready = [self._program("pg_isready"), "-q", "-h", str(self.folder), "-U", "deep"]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(command, user=self._user, cwd=self.folder, stdout=log, stderr=log)
        while subprocess.run(is_ready, check=False).returncode:
            if self._server.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text("utf-8"))

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server at once, as a crash would: connections end, transactions are rolled back."""
        if self._server is not None:
            self._server.send_signal(number)
            self._server.wait()
            self._server = None

    def initialize(self) -> None:
        """Create the files."""
        options = ["-A", "trust", "-U", "deep", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run("initdb", "-D", str(self.folder / "data"), *options)

    def _program(self, name: str) -> str:
        folder = programs()
        if folder is None:
            raise RuntimeError("no PostgreSQL here: apt-get install postgresql")
        return str(folder / name)

    def _run(self, name: str, *arguments: str) -> None:
        command: Sequence[str] = [self._program(name), *arguments]
        done = subprocess.run(command, user=self._user, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Create a cluster and start its server; stop it and remove all of it at the end."""
    # Not pytest's own folder: the path of a socket has at most 107 bytes, and root's folder is closed to others.
    folder = Path(tempfile.mkdtemp(prefix="deep-pg-"))
    user = _unprivileged_user() if os.geteuid() == 0 else None
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(folder, account.pw_uid, account.pw_gid)
        folder.chmod(0o755)
    running = Cluster(folder, user)
    try:
        running.initialize()
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged_user() -> str:
    """Return who runs the server where the tests are root: PostgreSQL refuses root."""
    names = {account.pw_name for account in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
