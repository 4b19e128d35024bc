"""The commands that stay on this machine, as folders that any process of the user reads.

A folder a command, below one a session: `about.json` (what it is, who owns it, who attends it), `input`, `dropped`,
`ended`, and `keep` if it may outlive its owner. Processes are known by number and start: a number that another process
has now is never signaled. `attend.py` writes the other half.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deep_core.plugin_api import folder_name

__all__ = ["About", "Ended", "Folder", "commands_folder", "sweep"]

ATTEND = os.path.join(os.path.dirname(__file__), "attend.py")
MARK = "DEEP_COMMAND"
"""The variable by which processes of a command are found whose attendant was killed."""
STOPPING = 8.0
"""Seconds that an attendant has to end its command; it takes 3 for one that does not end when asked."""
POLL = 0.02
SENDING = 5.0
"""Seconds for a command to take what is typed."""
KEPT_DAYS = 7
"""Days for which it is remembered how a command ended."""


@dataclass(frozen=True)
class About:
    """What a command is.

    Attributes:
        command: what runs.
        session: whose it is.
        root: the workspace's directory.
        log: the absolute path of its output.
        began: when, in seconds since 1970.
        mark: the value of `DEEP_COMMAND` in its environment.
        owner: the process id and start of the process that started it.
        attendant: those of the process that attends it; "" while it is being started.
    """

    command: str
    session: str
    root: str
    log: str
    began: float
    mark: str
    owner: str
    attendant: str = ""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        exit_code: its exit code, 128 + N after signal N; None if it is unknown.
        reason: "" by itself; `stopped`; `time`; `owner`: the process that started it ended; `lost`: its attendant was
            killed.
    """

    exit_code: int | None
    reason: str


def commands_folder() -> Path:
    """Return the folder of all commands of this user, which commands of `sandbox` do not see."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "commands"


class Folder:
    """One command.

    Args:
        path: its folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, session: str, name: str) -> Folder:
        """Return that of a session's command."""
        return cls(commands_folder() / folder_name(session) / name)

    @classmethod
    def create(cls, session: str) -> Folder:
        """Make the next one of a session: c1, c2 and so on."""
        parent = commands_folder() / folder_name(session)
        number = 1 + max((each.number for each in _commands_of(parent)), default=0)
        while True:
            parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                (parent / f"c{number}").mkdir(mode=0o700)
            except FileExistsError:
                number += 1
            except FileNotFoundError:  # another process forgot the session's last command, and the parent with it
                continue
            else:
                return cls(parent / f"c{number}")

    @property
    def name(self) -> str:
        """The command's name in its session."""
        return self.path.name

    @property
    def number(self) -> int:
        """The number in its name."""
        return int(self.name[1:])

    def start(
        self, about: About, argv: Sequence[str], env: dict[str, str], cwd: str, log: int, limits: tuple[int, int, int]
    ) -> subprocess.Popen[bytes]:
        """Start the attendant, and with it the command.

        Args:
            about: what it is.
            argv: its words.
            env: its environment.
            cwd: where it starts.
            log: a descriptor to write its output to.
            limits: bytes of the log, seconds, and the processes that stand around the command.
        """
        self._write(about)
        os.mkfifo(self.path / "input", 0o600)
        watched, held = os.pipe()  # `held` closes with this process, however it ends
        # It inherits the blocked signal, and takes it once it can: before, a stop would end it without a word.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            most, seconds, wrapped = limits
            words = (str(self.path), str(log), str(watched), about.owner, str(most), str(seconds), str(wrapped))
            # -I: neither the environment nor the working directory affects the attendant's imports.
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", ATTEND, *words, *argv],
                env={**env, MARK: about.mark},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(log, watched),
                start_new_session=True,
            )
        except BaseException:
            os.close(held)
            shutil.rmtree(self.path)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(watched)
        self._write(replace(about, attendant=identity(process.pid)))
        _held[process.pid] = held
        return process

    def about(self) -> About | None:
        """Return what it is; None while it is being made, or if its folder is damaged."""
        try:
            return About(**json.loads((self.path / "about.json").read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def ended(self, about: About) -> Ended | None:
        """Return how it ended; None while it runs. What an attendant that was killed left is killed here."""
        is_attended = bool(about.attendant) and is_alive(about.attendant)
        known = self._ended()
        if known is not None or is_attended or (not about.attendant and is_alive(about.owner)):
            return known
        kill_marked(about.mark)
        self._end(lost := Ended(None, "lost"))
        return self._ended() or lost

    def dropped(self) -> int:
        """Return the bytes of output that the log has no longer; -1 while that changes."""
        try:
            return int((self.path / "dropped").read_text("ascii") or 0)
        except (OSError, ValueError):
            return 0

    def send(self, data: bytes) -> bool:
        """Type something. Returns whether the command took it: it may have ended, or read nothing for long."""
        late = time.monotonic() + SENDING
        while True:
            try:
                descriptor = os.open(self.path / "input", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                break
            except OSError as error:  # ENXIO: it has not begun to listen, or it has ended
                if error.errno != errno.ENXIO or self._ended() is not None or time.monotonic() > late:
                    return False
                time.sleep(POLL)
        try:
            while data and time.monotonic() < late:
                try:
                    data = data[os.write(descriptor, data) :]
                except BlockingIOError:
                    time.sleep(POLL)
        except BrokenPipeError:
            return False
        finally:
            os.close(descriptor)
        return not data

    def ask_to_stop(self) -> None:
        """Let the attendant end it: first it asks the processes."""
        late = time.monotonic() + STOPPING
        while (about := self.about()) is not None and self.ended(about) is None and time.monotonic() < late:
            if about.attendant:
                send_signal(about.attendant, signal.SIGTERM)
                break
            time.sleep(POLL)  # another process is starting it

    def stop(self) -> Ended | None:
        """End it, wait for that, and return how it ended; None if there is no such command."""
        self.ask_to_stop()
        return self.wait_stopped()

    def wait_stopped(self) -> Ended | None:
        """Wait until it and its attendant have ended, and end it by force if it does not."""
        late = time.monotonic() + STOPPING
        while (about := self.about()) is not None:
            ended = self.ended(about)
            if ended is not None and not is_alive(about.attendant):
                return ended
            if time.monotonic() > late:
                return ended or self._end_by_force(about)
            time.sleep(POLL)
        return None

    def _end_by_force(self, about: About) -> Ended | None:
        if about.attendant:
            send_signal(about.attendant, signal.SIGKILL)
        kill_marked(about.mark)
        self._end(Ended(None, "stopped"))
        return self._ended()

    def discard(self) -> None:
        """Remove it: its command was not started."""
        shutil.rmtree(self.path, ignore_errors=True)

    def note(self, text: str) -> None:
        """Remember what was done about the command, unless it was forgotten."""
        with suppress(FileNotFoundError), (self.path / "notes").open("a", encoding="utf-8") as file:
            file.write(f"{' '.join(text.split())}\n")

    def notes(self) -> list[str]:
        """Return what was done about it."""
        try:
            return (self.path / "notes").read_text("utf-8").splitlines()
        except OSError:
            return []

    @property
    def is_kept(self) -> bool:
        """Whether it may outlive the process and the session that started it."""
        return (self.path / "keep").exists()

    def keep(self) -> None:
        """Let it outlive them."""
        (self.path / "keep").touch(mode=0o600)

    def _ended(self) -> Ended | None:
        try:
            known: Any = json.loads((self.path / "ended").read_text("utf-8"))
            return Ended(known["exit_code"], known["reason"])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _end(self, ended: Ended) -> None:
        partial = self.path / f"ended.{os.getpid()}.{threading.get_ident()}"  # several threads may find it ended
        with suppress(FileExistsError, FileNotFoundError):  # its attendant wrote it meanwhile, or it was forgotten
            partial.write_text(json.dumps(asdict(ended)), "utf-8")
            os.link(partial, self.path / "ended")
        partial.unlink(missing_ok=True)

    def _write(self, about: About) -> None:
        partial = self.path / "about.partial"
        partial.write_text(json.dumps(asdict(about)), "utf-8")
        partial.rename(self.path / "about.json")


_held: dict[int, int] = {}
"""By attendant: the descriptor whose end tells it that this process is gone."""


def reap(process: subprocess.Popen[bytes], meanwhile: Callable[[], float], after: Callable[[], None]) -> None:
    """Wait for an attendant in a thread of its own, so that no dead process stays.

    Args:
        process: the attendant.
        meanwhile: called now and then until it has ended; returns the seconds to wait before the next time.
        after: called at the end.
    """

    def wait() -> None:
        while True:
            try:
                process.wait(meanwhile())
                break
            except subprocess.TimeoutExpired:
                continue
        with suppress(KeyError):
            os.close(_held.pop(process.pid))
        after()

    threading.Thread(target=wait, name=f"attends {process.pid}", daemon=True).start()


def folders(session: str | None = None) -> Iterator[Folder]:
    """Yield the commands of a session, or of all, in order."""
    base = commands_folder()
    parents = [base / folder_name(session)] if session is not None else sorted(base.iterdir()) if base.is_dir() else []
    for parent in parents:
        yield from _commands_of(parent)


def _commands_of(parent: Path) -> list[Folder]:
    try:
        found = [Folder(each) for each in parent.iterdir() if each.name[1:].isdigit()]
    except (FileNotFoundError, NotADirectoryError):
        return []  # also where another process forgot the last one meanwhile
    return sorted(found, key=lambda each: each.number)


def end_all(found: Sequence[Folder]) -> None:
    """End commands, all at once."""
    for folder in found:
        folder.ask_to_stop()
    for folder in found:
        folder.wait_stopped()


def sweep() -> None:
    """End what processes left that are gone, and forget commands that ended long ago. Cheap where there is nothing."""
    old = time.time() - KEPT_DAYS * 86_400

    def is_old(path: Path) -> bool:
        try:
            return path.stat().st_mtime < old
        except FileNotFoundError:  # another process forgot it meanwhile
            return False

    left: list[Folder] = []
    for folder in folders():
        about = folder.about()
        if about is None:
            if is_old(folder.path):
                shutil.rmtree(folder.path, ignore_errors=True)
        elif folder.ended(about) is None:
            if not folder.is_kept and not is_alive(about.owner):
                left.append(folder)
        elif is_old(folder.path / "ended"):
            forget(folder, about)
    end_all(left)


def forget(folder: Folder, about: About) -> None:
    """Remove what is known of a command that ended, and its log."""
    if os.path.realpath(about.log) == about.log:  # not through a link that a command made
        with suppress(OSError):
            os.unlink(about.log)
    shutil.rmtree(folder.path, ignore_errors=True)
    with suppress(OSError):  # others are there
        folder.path.parent.rmdir()


def identity(pid: int) -> str:
    """Return a process's id and start, which no other process ever has; the id alone if its start is not known."""
    return f"{pid} {_started(pid)}"


def is_alive(process: str) -> bool:
    """Whether the process of an `identity` runs. One that is dead and not waited for does not."""
    pid, _, start = process.partition(" ")
    return pid.isdigit() and bool(start) and _started(int(pid)) == start


def send_signal(process: str, number: signal.Signals) -> None:
    """Signal the process of an `identity`, and no other."""
    pid = int(process.partition(" ")[0])
    with suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            if is_alive(process):
                os.kill(pid, number)
            return
        descriptor = os.pidfd_open(pid)
        try:
            if is_alive(process):  # it is the one that the descriptor names
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _started(pid: int) -> str:
    if sys.platform != "linux":
        asked = ["/bin/ps", "-o", "lstart=,state=", "-p", str(pid)]
        found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        return "" if found.endswith("Z") else found
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == b"Z" else fields[19].decode()


def kill_marked(mark: str) -> None:
    """Kill every process with a value of `DEEP_COMMAND`, which whatever a command starts inherits; on Linux."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(100):
        found = [pid for pid in _pids() if wanted in _environment(pid) and _started(pid)]
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if sys.platform == "linux" else []


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def owner() -> str:
    """Return the identity of this process."""
    return identity(os.getpid())
