"""Run one command and leave nothing of it behind. A script: it is started by path and imports nothing of this package.

Two processes. The first is the one that the caller sees, waits for and kills. The second, in a session of its own,
starts the command, and kills whatever the command left: when the command ends, or when the first process is gone.
On Linux it adopts every orphan below it (`PR_SET_CHILD_SUBREAPER`), so that a process which called `setsid` is found
too; elsewhere it kills the command's process group.

Bash does not wait for `>(tee log)`. What the command leaves gets `FINISHING` seconds if all of it reads a pipe, as that
does: the writer is gone, and what is in the pipe would be lost. A job behind `&` reads /dev/null, and gets none.
What bash has just forked holds the pipe, and reads it only a moment later: `BEGINNING` seconds long this is enough.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

FINISHING, BEGINNING = 10.0, 1.0
GLANCE = 0.02
PR_SET_CHILD_SUBREAPER = 36
NOT_EXECUTABLE, NOT_FOUND = 126, 127


def main(argv: list[str]) -> int:
    """Run `argv`; return its exit code, 128 + N after signal N."""
    watched, held = os.pipe()  # `held` closes with this process, however it ends
    supervisor = os.fork()
    if supervisor:
        return _exit_code(os.waitpid(supervisor, 0)[1])
    os.close(held)
    os.setsid()
    _adopt_orphans()
    rung, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.signal(signal.SIGCHLD, _ring)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    command = os.fork()
    if not command:
        _start(argv)
    status = _wait(command, watched, rung)
    _let_finish(watched, rung)
    _kill_all(command)
    return _exit_code(status)


def _ring(number: int, frame: object) -> None:
    """Do nothing: the signal writes to the wakeup descriptor."""


def _start(argv: list[str]) -> None:
    os.setsid()
    # Python ignores these, and the command would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the command has its own shell, if any
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        os.write(2, os.fsencode(f"{argv[0]}: {'command not found' if missing else 'Permission denied'}\n"))
        os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)


def _wait(command: int, watched: int, rung: int) -> int:
    """Wait until the command ends, or the process that the caller sees; reap adopted orphans meanwhile."""
    while True:
        ready, _, _ = select.select([watched, rung], [], [])
        if watched in ready:
            return signal.SIGKILL
        os.read(rung, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == command:
                return status
            if not pid:
                break


def _let_finish(watched: int, rung: int) -> None:
    """Wait while all that is left reads a pipe that the command did not start with."""
    began = time.monotonic()
    while _reap_orphans():
        begins = time.monotonic() < began + BEGINNING
        others = {pid for pid in _children() if not _reads_a_pipe(pid, anywhere=begins)}
        # Asked again: one that has ended reads nothing, and one that begins moves the pipe from place to place.
        if any(not _reads_a_pipe(pid, anywhere=begins) for pid in others & {*_children()}):
            return
        left = GLANCE if begins else max(began + FINISHING - time.monotonic(), 0)
        ready, _, _ = select.select([watched, rung], [], [], left)
        if watched in ready or not (ready or begins):
            return
        if ready:
            os.read(rung, 4096)


def _reap_orphans() -> bool:
    """Reap what has ended; return whether anything is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _reads_a_pipe(pid: int, *, anywhere: bool) -> bool:
    """Whether a process reads a pipe of its own: as its standard input, or `anywhere`."""
    try:
        names = os.listdir(f"/proc/{pid}/fd") if anywhere else ["0"]
    except OSError:  # it ended meanwhile
        return False
    return any(_is_read(pid, name) for name in names)


def _is_read(pid: int, name: str) -> bool:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{name}")
        if not target.startswith("pipe:") or target == os.readlink("/proc/self/fd/0"):
            return False
        with open(f"/proc/{pid}/fdinfo/{name}") as file:
            flags = next(line for line in file if line.startswith("flags:"))
    except OSError:  # it is closed
        return False
    return int(flags.split()[1], 8) & os.O_ACCMODE == os.O_RDONLY


def _kill_all(command: int) -> None:
    _kill(-command)
    # An orphan of a killed process becomes a child of this one: until there is none.
    while sys.platform == "linux":
        for pid in _children():
            _kill(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _kill(pid: int) -> None:
    try:  # noqa: SIM105 - contextlib takes milliseconds to import, at every command
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it ended meanwhile, or it runs as another user


def _children() -> list[int]:
    """List the children of this process that run. State and parent stand behind the name, which may have blanks."""
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[1]) == os.getpid() and fields[0] != b"Z":
            found.append(int(name))
    return found


def _adopt_orphans() -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


if __name__ == "__main__":
    # Without the interpreter's end: it is the same process twice.
    os._exit(main(sys.argv[1:]))
