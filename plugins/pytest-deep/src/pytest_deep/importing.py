"""Observe the import of a plugin in a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .plugin import ENVIRONMENT
from .problem import Problem

__all__ = ["HEAVY", "Imported", "import_apart"]

HEAVY = ("pydantic", "pydantic_ai")
"""Modules that a plugin must not import: 150 ms and more, even in commands that only list plugins."""
SECONDS = 60
"""Seconds after which an import is given up."""


@dataclass(frozen=True)
class Imported:
    """One import in a fresh interpreter.

    Attributes:
        error: the end of the traceback, "" on success.
        effects: its side effects.
        heavy: the heavy modules that it loaded.
    """

    error: str
    effects: tuple[Problem, ...]
    heavy: tuple[Problem, ...]


@cache
def import_apart(module: str, sources: tuple[Path, ...]) -> Imported:
    """Import a module in a fresh interpreter, with this one's path and pytest's original environment.

    Args:
        module: the module's name.
        sources: the plugin's files and folders: each effect is reported with the line there that caused it.

    Raises:
        subprocess.TimeoutExpired: it took too long.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-deep-") as name:
        folder = Path(name)
        out = folder / "out.json"
        job = {"module": module, "sources": [str(source) for source in sources], "heavy": HEAVY, "out": str(out)}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        probe = Path(__file__).with_name("import_probe.py")
        # -P: do not search the probe's folder. -B: write no byte code.
        process = subprocess.run(
            [sys.executable, "-P", "-B", str(probe), str(folder / "job.json")],
            # Not os.environ: the plugin, already imported in this process, may have changed it.
            env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": str(folder)},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if not out.exists():
            return Imported(f"the interpreter ended with {process.returncode}\n{process.stderr[-2000:]}", (), ())
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    effects = [_effect(module, effect["what"], effect["place"]) for effect in result["effects"]]
    if process.stdout:
        effects.append(_effect(module, f"prints {process.stdout[:80]!r}", ""))
    heavy = [_heavy(module, item["module"], item["place"]) for item in result["heavy"]]
    return Imported(result["error"], tuple(dict.fromkeys(effects)), tuple(heavy))


def _effect(plugin: str, what: str, place: str) -> Problem:
    return Problem(
        place or f"import {plugin}",
        f"{what} when it is imported",
        "do it in a hook or, what needs files, threads or the network, at run time: in a tool, a capability or a "
        "backend. `deep plugins list` and other applications may import a plugin without using it",
    )


def _heavy(plugin: str, module: str, place: str) -> Problem:
    return Problem(
        place or f"import {plugin}",
        f"loads {module} when the plugin is imported",
        f"move the import of {module}, and of modules that import it, into the functions that use it; types go under "
        "`if TYPE_CHECKING:`, and public names through `deep_core.lazy_exports`",
    )
