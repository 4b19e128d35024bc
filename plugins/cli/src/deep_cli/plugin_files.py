"""`-p PLUGIN.py`: a plugin that is a file, loaded as a module that the kernel is given by hand."""

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
"""Keeps the modules' names apart from everything that can be imported."""


def load_plugin_files(paths: Sequence[Path]) -> list[ModuleType]:
    """The files as modules; a plugin's name is its file's name without `.py` and a leading `deep_`.

    Raises:
        PluginError: a file's name cannot be a plugin's, or running it raised.
    """
    return [_load(path) for path in paths]


def _load(path: Path) -> ModuleType:
    stem = path.stem.replace("-", "_")
    if path.suffix != ".py" or not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", stem):
        raise PluginError(
            f"-p {path}: a plugin file is named like a plugin: lower-case letters, digits and _, a letter first, .py"
        )
    name = f"{PACKAGE}.{stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise PluginError(f"-p {path}: cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    # Before it runs: classes made by it look their own annotations up there.
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
