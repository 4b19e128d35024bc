"""`-p PLUGIN.py`: load a plugin file as a module for the kernel."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from deep_core import PluginError

__all__ = ["load_plugin_files"]

PACKAGE = "_deep_plugin_files"
"""A prefix that keeps the modules' names apart from importable modules."""


def load_plugin_files(paths: Sequence[Path]) -> list[ModuleType]:
    """Load files as modules; a plugin's name is its file's name without `.py` and a leading `deep_`.

    Raises:
        PluginError: a file's name is not valid for a plugin, or running it raised.
    """
    return [_load(path) for path in paths]


def _load(path: Path) -> ModuleType:
    stem = path.stem.replace("-", "_")
    if path.suffix != ".py" or not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", stem):
        raise PluginError(
            f"-p {path}: not a plugin's name: use lower-case letters, digits and _, a letter first, then .py"
        )
    name = f"{PACKAGE}.{stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise PluginError(f"-p {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Register it before it runs: its classes look up their annotations there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = _line(error, str(path.resolve()))
        where = f"{path}:{line}" if line else str(path)
        raise PluginError(
            f"-p {where}: {type(error).__name__}: {error}; fix the file, or leave -p out", plugin=stem
        ) from error
    return module


def _line(error: BaseException, file: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
