"""A fresh environment for one distribution: made, filled and removed by one check."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ...failure import Failure

__all__ = ["Environment", "Ran", "versions_of"]

OURS = {"deep": "deep-agent-core", "pydantic-ai": "pydantic-ai-slim"}
"""What people type -> the distribution."""


@dataclass(frozen=True)
class Ran:
    """How a program ended.

    Attributes:
        code: its exit code; -1 if it took too long.
        out: what it printed.
        err: what it said on stderr.
    """

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line that it said, for people."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".splitlines() if line.strip()]
        return lines[-1][:500] if lines else f"it said nothing, and ended with {self.code}"

    @property
    def conflict(self) -> str:
        """Why an installer could not choose versions, in its words; its last line if it does not say."""
        # uv's reason stands after its word or an arrow, pip's before advice; hints follow.
        begins, ends = r"(?:cause:|╰─▶|ERROR: (?=Cannot install))", r"(?:\n\s*\n|\n\s*(?:ERROR|hint):|\Z)"
        found = re.search(f"{begins}(.*?){ends}", self.err, re.S)
        return " ".join(found[1].split())[:500] if found else self.last


def versions_of(given: Sequence[str]) -> dict[str, str]:
    """Return name -> requirement for deep and Pydantic AI: what was given, else the versions that run here.

    Raises:
        Failure: a requirement names something else.
    """
    found: dict[str, str] = {}
    for name in OURS.values():
        with suppress(metadata.PackageNotFoundError):
            found[name] = f"{name}=={metadata.version(name)}"
    for text in given:
        name = next((each for each in OURS if text.startswith((f"{each}==", f"{each}>", f"{each}<", f"{each}~"))), "")
        if not name:
            raise Failure(f"{text!r} is none of deep==VERSION and pydantic-ai==VERSION")
        found[OURS[name]] = OURS[name] + text.removeprefix(name)
    return found


class Environment:
    """A virtual environment in a folder of its own.

    Args:
        folder: an empty folder.
        seconds: how long each program may take.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self._seconds = folder, seconds
        self.home = folder / "home"
        self._python = folder / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self._uv = shutil.which("uv") or _uv_here()

    def make(self) -> Ran:
        """Make it, with the Python that runs `deep`."""
        self.home.mkdir()
        place = str(self.folder / "env")
        if self._uv:
            return self._run([self._uv, "venv", "--quiet", "--python", sys.executable, place])
        return self._run([sys.executable, "-m", "venv", place])

    def install(self, wanted: Sequence[str], find_links: Sequence[str]) -> Ran:
        """Install requirements, from the index that pip or uv uses and from folders."""
        links = [word for folder in find_links for word in ("--find-links", folder)]
        if self._uv:
            return self._run([self._uv, "pip", "install", "--quiet", "--python", str(self._python), *links, *wanted])
        return self._run([str(self._python), "-m", "pip", "install", "--quiet", *links, *wanted])

    def python(self, *arguments: str, cwd: Path) -> Ran:
        """Run its Python; nothing of the current folder can be imported."""
        return self._run([str(self._python), "-P", *arguments], cwd)

    def _run(self, command: Sequence[str], cwd: Path | None = None) -> Ran:
        try:
            done = subprocess.run(
                command,
                cwd=cwd or self.folder,
                env=self._variables(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ran(-1, "", f"it took more than {self._seconds:g} seconds")
        except OSError as error:
            return Ran(-1, "", str(error))
        return Ran(done.returncode, done.stdout, done.stderr)

    def _variables(self) -> Mapping[str, str]:
        """Return an environment without the user's configuration of deep, and with a home of its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DEEP_", "PYTHON", "XDG_"))}
        kept.pop("VIRTUAL_ENV", None)
        # The installers keep their cache and configuration; what is tried sees an empty home.
        mine = {"UV_CACHE_DIR": _cache("uv"), "PIP_CACHE_DIR": _cache("pip"), "HOME": str(self.home)}
        return {**kept, **{name: value for name, value in mine.items() if name not in kept or name == "HOME"}}


def _cache(tool: str) -> str:
    return str(Path.home() / ".cache" / tool)


def _uv_here() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.is_file() else None
