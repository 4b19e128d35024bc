"""docs/deployment.md: service, units, proxy, container file, backups and upgrades, by the programs that read them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.another_process import Started, run, start
from tests.docs_pages import ROOT, blocks, readers_environment
from tests.local_wheels import PROJECTS, build
from tests.postgresql import cluster

PAGE = ROOT / "docs" / "deployment.md"
FILES = {block.title: block.code for block in blocks(PAGE) if block.title}
SECONDS = 60
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "EXPOSE", "CMD"}


@contextlib.contextmanager
def service(folder: Path, store: str, *options: str) -> Iterator[str]:
    """The page's service as the page starts it; ends it as systemd does, and gives its address."""
    (folder / "service.py").write_text(FILES["service.py"], "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "uvicorn", "service:app", "--host", "127.0.0.1", "--port", str(port), *options]
    variables = readers_environment(folder) | {"STORE": store, "DEEP_MODEL": "demo:echo"}
    with (folder / "log").open("ab") as log:
        process = start(*command, cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process, folder / "log")
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) in (0, -signal.SIGTERM), (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: Started, log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(httpx.TransportError):
            with http() as client:
                assert client.get(f"{url}/healthz").json() == {"status": "ok"}
            return
        assert time.monotonic() < deadline, "the service does not answer"
        time.sleep(0.05)


def http() -> httpx.Client:
    return httpx.Client(trust_env=False, timeout=SECONDS)


def asked(url: str) -> tuple[int, dict[str, str]]:
    """Send a message, and return the status of the request and the answer, which stays after the run has ended."""
    with http() as client:
        sent = client.post(f"{url}/sessions/tides/messages", json={"text": "High water?"})
        client.get(f"{url}/sessions/tides").raise_for_status()
        return sent.status_code, client.get(f"{url}/sessions/tides").json()


ANSWERED = (202, {"status": "idle", "answer": "High water?"})


@pytest.mark.slow
def test_the_service_keeps_its_sessions_over_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        with service(tmp_path, "sqlite:///sessions.db", "--proxy-headers") as url:
            assert asked(url) == ANSWERED
    with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (1,)


@pytest.mark.slow
@pytest.mark.needs("PostgreSQL")
def test_service_worker_and_backup_share_a_postgresql(tmp_path: Path) -> None:
    with cluster() as server:
        store, restored = server.create_database(), server.create_database()
        variables = readers_environment(tmp_path) | {"STORE": store, "RESTORED": restored}
        variables["DEEP_PLUGINS_ALLOW"] += ",deep-durable"
        with service(tmp_path, store) as url:
            assert asked(url) == ANSWERED
        words = ["run", "When is high water?", "--queue", "--session", "queued", "--store", store]
        run("deep_cli", *words, cwd=tmp_path, env=variables).check_returncode()
        worked(tmp_path, store, variables)
        (tmp_path / "backup.sh").write_text(FILES["backup.sh"], "utf-8")
        subprocess.run(["bash", "-eu", "backup.sh"], cwd=tmp_path, env=variables, check=True)
        listed = printed(tmp_path, variables, "list", "--store", restored)
        assert "tides" in listed
        assert "queued" in listed


def worked(folder: Path, store: str, variables: dict[str, str]) -> None:
    """Run a worker until its session has an answer, and stop it as systemd does."""
    with (folder / "worker.log").open("wb") as log:
        words = ["worker", "--store", store, "--model", "demo:echo"]
        worker = start("-m", "deep_cli", *words, cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 2 * SECONDS
        while (shown := printed(folder, variables, "show", "queued", "--store", store)).count("high water?") < 2:
            assert worker.poll() is None, (folder / "worker.log").read_text()
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SECONDS) == 0, (folder / "worker.log").read_text()
    finally:
        worker.kill()
        worker.wait()


def printed(folder: Path, variables: dict[str, str], *arguments: str) -> str:
    """What `deep sessions ARGUMENTS` prints."""
    done = run("deep_cli", "sessions", *arguments, cwd=folder, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_shell_backs_up_a_store_that_is_in_use(tmp_path: Path) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("apt-get install sqlite3")
    command = 'sqlite3 sessions.db ".backup backup.db"'
    assert command in PAGE.read_text("utf-8")
    with service(tmp_path, "sqlite:///sessions.db") as url:
        assert asked(url) == ANSWERED
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    assert "tides" in printed(tmp_path, readers_environment(tmp_path), "list", "--store", "sqlite:///backup.db")


@pytest.mark.slow
def test_an_older_version_refuses_a_newer_store(tmp_path: Path) -> None:
    with service(tmp_path, "sqlite:///sessions.db") as url:
        assert asked(url) == ANSWERED
    connection = sqlite3.connect(tmp_path / "sessions.db")
    connection.execute("PRAGMA user_version = 1000")
    connection.close()
    words = ["sessions", "list", "--store", "sqlite:///sessions.db"]
    refused = run("deep_cli", *words, cwd=tmp_path, env=readers_environment(tmp_path))
    assert refused.returncode == 1
    assert "newer deep-sessions" in refused.stderr


@pytest.mark.parametrize("unit", ["agents.service", "agents-worker.service"])
def test_systemd_accepts_the_units(unit: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("apt-get install systemd")
    # It looks for the program, which is not installed there.
    text = FILES[unit].replace("/opt/agents/.venv/bin/uvicorn", "/bin/true")
    (tmp_path / unit).write_text(text.replace("/opt/agents/.venv/bin/deep", "/bin/true"), "utf-8")
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / unit], capture_output=True, text=True, check=False
    )
    assert unit not in checked.stderr, checked.stderr
    assert checked.returncode == 0, checked.stderr


def test_the_units_start_what_the_page_starts() -> None:
    (service_line,) = [line for line in FILES["agents.service"].splitlines() if line.startswith("ExecStart=")]
    assert "uvicorn service:app --host 127.0.0.1 --port 8000" in service_line
    stop = int(FILES["agents-worker.service"].partition("TimeoutStopSec=")[2].split()[0])
    shown = run("deep_cli", "worker", "--help").stdout
    assert "20" in shown[shown.index("--grace") :].partition("--lease")[0]
    assert stop > 20


def test_a_parser_of_nginx_accepts_the_proxy(tmp_path: Path) -> None:
    crossplane = pytest.importorskip("crossplane", reason="pip install -r requirements/dev.txt")
    (tmp_path / "agents.conf").write_text(FILES["agents.conf"], "utf-8")
    main = tmp_path / "nginx.conf"
    main.write_text("events { }\nhttp { include agents.conf; }\n", "utf-8")
    parsed = crossplane.parse(str(main), strict=True)
    assert (parsed["status"], parsed["errors"]) == ("ok", [])


def instructions() -> list[list[str]]:
    return [line.split(maxsplit=1) for line in FILES["Dockerfile"].splitlines()]


def test_the_container_file_has_known_instructions_and_starts_the_service() -> None:
    assert {name for name, _ in instructions()} <= INSTRUCTIONS
    for name, rest in instructions():
        if name == "RUN":
            subprocess.run(["bash", "-n"], input=rest, text=True, check=True)
    assert instructions()[0] == ["FROM", "python:3.12-slim"]
    assert [name for name, _ in instructions()][-1] == "CMD"


@pytest.mark.needs("Docker")
def test_the_container_answers(tmp_path: Path) -> None:
    build(PROJECTS, tmp_path / "dist")
    (tmp_path / "requirements.txt").write_text("deep-everything\nfastapi\nuvicorn\n", "utf-8")
    (tmp_path / "Dockerfile").write_text(FILES["Dockerfile"], "utf-8")
    (tmp_path / "service.py").write_text(FILES["service.py"], "utf-8")
    name = f"deep-deployment-{os.getpid()}"
    subprocess.run(["docker", "build", "--quiet", "--tag", name, tmp_path], check=True)
    try:
        command = ["docker", "run", "--rm", "--entrypoint", "python", name, "-c", "import service"]
        subprocess.run(command, check=True)
    finally:
        subprocess.run(["docker", "rmi", "--force", name], check=True)
