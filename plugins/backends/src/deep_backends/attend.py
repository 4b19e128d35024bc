"""Attend one command that stays: a terminal, a log, an end. A script: it imports nothing of this package.

It is started by path, in a session of its own. The command ends when it is told to, when its time is over, or when the
process that started it is gone, unless a file `keep` is in its folder. On Linux it adopts every orphan below it, as
`supervise.py` does. What it writes into its folder: `dropped` (bytes that the log has no longer, -1 while that
changes), and at the end `ended`.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
NOT_EXECUTABLE, NOT_FOUND = 126, 127
BLOCK = 65_536
RATE = 8 * 1024 * 1024
"""Bytes that are read in a second: a flood costs its own program, not the machine."""
LOOK = 2.0
"""Seconds between two looks at the process that started it."""
STEPS = ((0.0, signal.SIGTERM), (1.0, signal.SIGHUP), (3.0, signal.SIGKILL))
"""Seconds from the wish to stop, and the signal. Interactive shells ignore the first."""
UNKILLABLE = 5.0
"""Seconds to wait for processes that do not die, such as those of another user."""
ROWS, COLUMNS = 50, 200


class Attendant:
    """The state of the one command.

    Args:
        folder: its folder: `input` is a FIFO, whose bytes are typed.
        log: the descriptor of the log.
        watched: a descriptor whose end tells that the owner is gone.
        owner: the owner's process id and start.
        most: the log's bytes, at most.
        seconds: its time.
        wrapped: how many processes stand around the command, which are not asked to end.
    """

    def __init__(self, folder: str, log: int, watched: int, owner: str, most: int, seconds: int, wrapped: int) -> None:
        self.folder = folder
        self.log = log
        self.watched = watched
        self.owner = owner
        self.most = most
        self.deadline = time.monotonic() + seconds
        self.wrapped = wrapped
        self.command = 0
        self.master = -1
        self.size = self.held = 0
        self.typed = b""
        self.reason = ""
        self.asked = 0.0
        self.steps = list(STEPS)
        self.window, self.in_window = 0.0, 0
        self.looked = time.monotonic()
        self.dropped = os.open(f"{folder}/dropped", os.O_WRONLY | os.O_CREAT, 0o600)
        self.input = os.open(f"{folder}/input", os.O_RDWR | os.O_NONBLOCK)
        self.rung, bell = os.pipe()
        os.set_blocking(bell, False)
        os.set_blocking(self.rung, False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _ring)
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # who started this blocked it until now

    def start(self, argv: list[str]) -> None:
        """Start the command in a terminal of its own."""
        self.master, slave = os.openpty()
        settings = termios.tcgetattr(slave)
        settings[1] &= ~termios.OPOST  # lines end as the program ends them
        settings[3] &= ~termios.ECHO  # what is typed is known
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.set_blocking(self.master, False)
        self.command = os.fork()
        if not self.command:
            _exec(argv, slave, wrapped=self.wrapped > 0)
        os.close(slave)

    def run(self) -> None:
        """Attend the command until it ends, and leave nothing of it."""
        status = None
        while status is None:
            self._step()
            status = self._reap()
        self._kill_all()
        self._drain()
        self._write_end(status)

    # -- one step ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        now = time.monotonic()
        if now - self.window >= 1:
            self.window, self.in_window = now, 0
        is_flooded = self.in_window >= RATE
        heard = [] if is_flooded else [self.master]
        typed = [self.input] if len(self.typed) < BLOCK else []
        reads = [fd for fd in (self.rung, self.watched, *heard, *typed) if fd >= 0]
        wait = min(LOOK, max(self.deadline - now, 0) if not self.reason else LOOK)
        if self.steps and self.reason:
            wait = min(wait, max(self.asked + self.steps[0][0] - now, 0))
        if is_flooded:
            wait = min(wait, max(self.window + 1 - now, 0))
        ready, writable, _ = select.select(reads, [self.master] if self.typed and self.master >= 0 else [], [], wait)
        if self.rung in ready and signal.SIGTERM in os.read(self.rung, 4096):
            self._end("stopped")
        if self.watched in ready and not os.read(self.watched, 1):
            os.close(self.watched)
            self.watched = -1
            self._orphaned()
        if self.input in ready:
            self.typed = self.typed + os.read(self.input, BLOCK) if self.master >= 0 else b""
        if writable:
            self._type()
        if self.master in ready:
            self._hear()
        self._look(time.monotonic())

    def _look(self, now: float) -> None:
        """Do what is due."""
        if now >= self.deadline:
            self._end("time")
        if now - self.looked >= LOOK:
            self.looked = now
            if self.owner and not _is_alive(self.owner):
                self._orphaned()
        while self.reason and self.steps and now >= self.asked + self.steps[0][0]:
            _, number = self.steps.pop(0)
            if number == signal.SIGKILL:
                self._kill_all()
            else:
                for pid in self._below(self.wrapped):
                    _kill(pid, number)

    def _orphaned(self) -> None:
        self.owner = ""
        if not os.path.exists(f"{self.folder}/keep"):
            self._end("owner")

    def _end(self, reason: str) -> None:
        if not self.reason:
            self.reason, self.asked = reason, time.monotonic()

    def _type(self) -> None:
        try:
            self.typed = self.typed[os.write(self.master, self.typed) :]
        except BlockingIOError:
            return  # it does not read
        except OSError:  # it has no terminal any more
            self.typed = b""

    def _hear(self) -> bool:
        """Log what the command says; return whether there was anything."""
        try:
            data = os.read(self.master, BLOCK)
        except BlockingIOError:
            return False
        except OSError:  # no process has the terminal
            data = b""
        if not data:
            os.close(self.master)
            self.master = -1
            return False
        self.in_window += len(data)
        try:
            self._write(data)
        except OSError as error:
            self._end(f"its log cannot be written: {error.strerror}")
        return True

    def _write(self, data: bytes) -> None:
        self.size += len(data)
        if self.held + len(data) <= self.most:
            os.pwrite(self.log, data, self.held)
            self.held += len(data)
            return
        kept = (os.pread(self.log, self.most, 0)[: self.held] + data)[-(self.most // 2) :]
        self._say_dropped(-1)
        os.pwrite(self.log, kept, 0)
        os.ftruncate(self.log, len(kept))
        self.held = len(kept)
        self._say_dropped(self.size - self.held)

    def _say_dropped(self, count: int) -> None:
        os.pwrite(self.dropped, f"{count:<20}".encode(), 0)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _reap(self) -> int | None:
        """Take note of processes that ended; return the command's status."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == self.command:
                return status
            if not pid:
                return None

    def _drain(self) -> None:
        """Log what the terminal still has."""
        while self.master >= 0 and self._hear():
            pass

    def _write_end(self, status: int) -> None:
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        partial = f"{self.folder}/ended.partial"
        reason = self.reason.replace('"', "'").replace("\\", "/")
        with open(partial, "w") as file:
            file.write(f'{{"exit_code": {code}, "reason": "{reason}"}}')
        os.rename(partial, f"{self.folder}/ended")

    def _kill_all(self) -> None:
        """Kill the command and everything that it started. Stopped processes start no others."""
        if sys.platform != "linux":
            _kill(-self.command, signal.SIGKILL)
            return
        stopped: set[int] = set()
        while new := {*self._below(0)} - stopped:
            for pid in new:
                _kill(pid, signal.SIGSTOP)
            stopped |= new
        late = time.monotonic() + UNKILLABLE
        while (left := self._below(0)) and time.monotonic() < late:
            for pid in left:
                _kill(pid, signal.SIGKILL)
            if self._reap_orphans():
                return
            time.sleep(0.005)

    def _reap_orphans(self) -> bool:
        """Reap all but the command, whose status is asked for later; return whether none is left but that."""
        for pid in self._below(0):
            if pid != self.command:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue  # not this process's own child yet
        return [*self._below(0)] in ([], [self.command])

    def _below(self, depth: int) -> list[int]:
        """List the processes below this one, without those that are less than `depth` below the command."""
        if sys.platform != "linux":
            return [-self.command]
        children: dict[int, list[int]] = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
            children.setdefault(parent, []).append(int(name))
        found: list[int] = []
        level = children.get(os.getpid(), [])
        deep = 0
        while level:
            if deep >= depth:
                found += level
            level = [pid for parent in level for pid in children.get(parent, [])]
            deep += 1
        return found


def _ring(number: int, frame: object) -> None:
    """Do nothing: the signal writes to the wakeup descriptor."""


def _exec(argv: list[str], slave: int, *, wrapped: bool) -> None:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(slave, descriptor)
    os.closerange(3, 1024)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if this process is killed; its end kills everything before
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP) if wrapped else ():
        # A Ctrl-C is for the command, not for the sandbox around it, in which RESTORE takes them again.
        signal.signal(number, signal.SIG_IGN)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - the command has its own shell
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        os.write(2, os.fsencode(f"{argv[0]}: {'command not found' if missing else 'Permission denied'}\n"))
        os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)


def _kill(pid: int, number: int) -> None:
    try:  # noqa: SIM105 - contextlib takes milliseconds to import, at every command
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it ended meanwhile, or it runs as another user


def _is_alive(owner: str) -> bool:
    """Whether the process `PID START` runs; START is empty where it is not known."""
    pid, _, start = owner.partition(" ")
    if start and sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return False
        return fields[19].decode() == start and fields[0] != b"Z"
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(argv: list[str]) -> None:
    """Attend `argv`, which begins with the arguments of `Attendant`."""
    folder, log, watched, owner, most, seconds, wrapped, *command = argv
    attendant = Attendant(folder, int(log), int(watched), owner, int(most), int(seconds), int(wrapped))
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    attendant.start(command)
    attendant.run()


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
