"""Import one module in a fresh interpreter, run as a script, and record its side effects.

    python -P -B import_probe.py JOB.json        JOB: {"module", "sources": [...], "heavy": [...], "out"}

Only the standard library and deep_core are loaded before, so that every effect is the module's.
"""

from __future__ import annotations

import gc
import json
import locale
import logging
import os
import signal
import sys
import sysconfig
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any, cast

import deep_core

PRELOADED = (deep_core.hookimpl, deep_core.PromptSection)
"""Modules that plugins import first are loaded before the measurement."""
CHANGES = {
    "os.mkdir": "makes the directory {}",
    "os.remove": "removes {}",
    "os.rename": "renames {}",
    "os.rmdir": "removes {}",
    "os.symlink": "makes the link {1}",
    "shutil.rmtree": "removes {}",
    "socket.bind": "binds a socket",
    "socket.connect": "connects to {1}",
    "socket.getaddrinfo": "looks up the host {}",
    "subprocess.Popen": "starts the process {}",
    "os.system": "starts the command {}",
    "os.fork": "forks",
    "os.posix_spawn": "starts the process {}",
    "sqlite3.connect": "opens the database {}",
}
"""Audit events of side effects -> their description."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class Watch:
    """Record what the interpreter audits while the module is imported."""

    def __init__(self, sources: list[str], heavy: list[str]) -> None:
        self.sources = sources
        self.heavy = heavy
        self.on = False
        self.effects: list[dict[str, str]] = []
        self.load_places: dict[str, str] = {}

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Receive audit events; an audit hook cannot be removed, so this one is disabled instead."""
        if not self.on:
            return
        if event == "open":
            self._on_open(*arguments[:3])
        elif event == "import":
            name = str(arguments[0])
            if name in self.heavy and name not in self.load_places:
                self.load_places[name] = self.place()
        elif event in CHANGES:
            texts = [str(argument) for argument in arguments] or [""]
            self._record(CHANGES[event].format(*texts))

    def _record(self, what: str) -> None:
        place = self.place(direct=True)
        if place:  # a dependency's own effects do not count
            self.effects.append({"what": what, "place": place})

    def record_threads(self) -> list[str]:
        """Record the names of threads that the module starts: one may have ended when the import does."""
        start, names = threading.Thread.start, list[str]()

        def record_start(thread: threading.Thread) -> None:
            if self.on and self.place(direct=True):
                names.append(thread.name)
                self._record(f"starts the thread {thread.name!r}")
            start(thread)

        threading.Thread.start = record_start  # pyright: ignore[reportAttributeAccessIssue]
        return names

    def _on_open(self, path: object, mode: object, flags: object) -> None:
        name = os.fsdecode(path) if isinstance(path, (str, bytes)) else ""
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(cast("int", flags) & WRITES)
        if writes and name and not name.endswith(".pyc") and not name.startswith("/dev/"):
            self._record(f"writes the file {name}")

    def place(self, *, direct: bool = False) -> str:
        """The line of the plugin that led here, "" for none; `direct`: only through the standard library."""
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            file = frame.f_code.co_filename
            if any(file == source or file.startswith(source + os.sep) for source in self.sources):
                return f"{file}:{frame.f_lineno}"
            if direct and not _is_standard(file):
                return ""
            frame = frame.f_back
        return ""


def _is_standard(file: str) -> bool:
    if file.startswith("<frozen") or file == __file__:
        return True
    return file.startswith(sysconfig.get_path("stdlib")) and "site-packages" not in file


def state() -> dict[str, str]:
    """State that a module must not change, as text."""
    signals = {str(number): repr(signal.getsignal(number)) for number in signal.valid_signals()}
    return {
        **{f"the environment variable {key}": value for key, value in os.environ.items()},
        **{f"the handler of signal {name}": value for name, value in signals.items()},
        "the working directory": os.getcwd(),
        "warnings.filters": repr(warnings.filters),
        "the root logger's handlers": repr(logging.root.handlers),
        "the root logger's level": repr(logging.root.level),
        "logging.disable": repr(logging.root.manager.disable),
        "sys.path": repr(sys.path),
        "sys.meta_path": repr(sys.meta_path),
        "sys.excepthook": repr(sys.excepthook),
        "threading.excepthook": repr(threading.excepthook),
        "the recursion limit": repr(sys.getrecursionlimit()),
        "the locale": locale.setlocale(locale.LC_ALL),
        "garbage collection": f"{gc.isenabled()} {gc.get_threshold()}",
        "sys.stdout": repr(sys.stdout),
        "sys.stderr": repr(sys.stderr),
    }


def probe(job: dict[str, Any]) -> dict[str, Any]:
    """Import the module; return the observations as JSON values."""
    watch = Watch(job["sources"], job["heavy"])
    before_import, recorded_names = set(threading.enumerate()), watch.record_threads()
    before = state()
    sys.addaudithook(watch.hook)
    watch.on = True
    error = ""
    try:
        __import__(job["module"])
    except BaseException:  # noqa: BLE001 - the parent reports any error
        error = traceback.format_exc(limit=-3)
    watch.on = False
    after = state()
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    started = [thread.name for thread in threading.enumerate() if thread not in before_import]
    watch.effects += [{"what": f"changes {key}", "place": ""} for key in changed]
    unrecorded = [name for name in started if name not in recorded_names]
    watch.effects += [{"what": f"starts the thread {name!r}", "place": ""} for name in unrecorded]
    roots = {name.partition(".")[0] for name in sys.modules}
    heavy = [{"module": name, "place": watch.load_places.get(name, "")} for name in job["heavy"] if name in roots]
    return {"error": error, "effects": watch.effects, "heavy": heavy}


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    result = probe(job)
    Path(job["out"]).write_text(json.dumps(result), encoding="utf-8")
    # A thread that the module left must not block the probe.
    sys.stdout.flush()
    os._exit(0)
