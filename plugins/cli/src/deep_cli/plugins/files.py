"""`-p PLUGIN.py`: load a plugin file as a module for the kernel, and load those of a stored chat again."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

from deep_core import PluginError

__all__ = ["FILES", "files_as_label", "files_of", "label_as_files", "load_again", "load_plugin_files"]

PACKAGE = "_deep_plugin_files"
"""A prefix that keeps the modules' names apart from importable modules."""


FILES = "plugin_files"
"""The label of a run that has the files, as JSON: path -> SHA-256 of what was loaded."""


class _Loader(SourceFileLoader):
    """Runs the source that it hashed, never cached bytecode."""

    expected = ""
    """What the source must have; "" for anything."""
    digest = ""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source. Raises _Changed if it is not the expected one."""
        import hashlib

        source = self.get_data(self.path)
        self.digest = hashlib.sha256(source).hexdigest()
        if self.expected not in ("", self.digest):
            raise _Changed
        return self.source_to_code(source, self.path)


class _Changed(Exception):
    pass


def load_plugin_files(paths: Sequence[Path]) -> list[ModuleType]:
    """Load files as modules; a plugin's name is its file's name without `.py` and a leading `deep_`.

    Raises:
        PluginError: a file's name is not valid for a plugin, or running it raised.
    """
    return [_load(path) for path in paths]


def files_of(plugins: Sequence[object]) -> dict[str, str]:
    """Return the files among plugins: path -> SHA-256 of what was loaded."""
    loaders = [plugin.__loader__ for plugin in plugins if isinstance(plugin, ModuleType)]
    return {loader.path: loader.digest for loader in loaders if isinstance(loader, _Loader)}


def files_as_label(files: Mapping[str, str]) -> dict[str, str]:
    """Return the label that keeps files with a run; none for no file."""
    return {FILES: json.dumps({**files})} if files else {}


def label_as_files(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a run; none if another program wrote something else."""
    try:
        found: Any = json.loads(labels.get(FILES, "{}"))
    except ValueError:
        return {}
    items = cast("dict[object, object]", found).items() if isinstance(found, dict) else ()
    return {path: digest for path, digest in items if isinstance(path, str) and isinstance(digest, str)}


def load_again(
    files: Mapping[str, str], given: Sequence[object], folder: str
) -> tuple[list[ModuleType], dict[str, str]]:
    """Load the files of a stored chat, except changed ones and those whose plugin is given anew.

    Args:
        files: path -> SHA-256 of what was loaded.
        given: the plugins that were typed now.
        folder: where the agent works, without symlinks.

    Returns:
        The modules, and the reason for each file that was not loaded.
    """
    from platformdirs import user_data_path

    names = {_name_of(Path(path)) for path in files_of(given)}
    modules: list[ModuleType] = []
    reasons: dict[str, str] = {}
    for path, digest in files.items():
        if _name_of(Path(path)) in names:
            continue
        if not Path(path).is_file():
            reasons[path] = "it is not there any more"
        elif user_data_path("deep").resolve().is_relative_to(folder):
            reasons[path] = f"the agent could write what {user_data_path('deep')} remembers, for it is in this folder"
        else:
            try:
                modules.append(_load(Path(path), digest))
            except _Changed:
                reasons[path] = "it has changed since"
            except PluginError as error:
                reasons[path] = str(error)
    return modules, reasons


def _name_of(path: Path) -> str:
    return path.stem.replace("-", "_").removeprefix("deep_")


def _load(path: Path, expected: str = "") -> ModuleType:
    stem = path.stem.replace("-", "_")
    if path.suffix != ".py" or not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", stem):
        raise PluginError(
            f"-p {path}: not a plugin's name: use lower-case letters, digits and _, a letter first, then .py"
        )
    name = f"{PACKAGE}.{stem}"
    loader = _Loader(name, str(path.resolve()))
    loader.expected = expected
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise PluginError(f"-p {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Register it before it runs: its classes look up their annotations there.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except _Changed:
        del sys.modules[name]
        raise
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
