"""What `deep plugins install` was told to install. pip and uv say what is wrong with it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deep_core.plugin_api import canonical

from ...failure import USAGE, Failure
from ..search import known_plugins

__all__ = ["InstallSpec", "parse"]

ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2")
_PATH = re.compile(r"(.*?)(\[[^\[\]]*\])?", re.S)
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_ADDRESS = re.compile(r"(?:^|@)\s*((?:[a-z]+\+)?[a-z]+://.*)", re.S)


@dataclass(frozen=True)
class InstallSpec:
    """One distribution to install.

    Attributes:
        text: for the installer, with an absolute path for a path.
        name: the distribution's canonical name; "" if only its installation shows it.
        address: the URL of a path or an address; "" for a name.
        editable: whether to install it as a link to its folder.
    """

    text: str
    name: str
    address: str = ""
    editable: bool = False


def parse(names: Sequence[str], editables: Sequence[str] = ()) -> list[InstallSpec]:
    """Read the arguments in order. Relative paths are below the current folder, which the installer does not see.

    Raises:
        Failure: a path does not exist, or a name is that of a plugin: on an index it belongs to someone else.
    """
    return [*(_parse(text) for text in names), *(_path(text, editable=True) for text in editables)]


def _parse(text: str) -> InstallSpec:
    if text.startswith("-"):
        raise Failure(f"{text!r} is not an option; `deep plugins install --help` lists them", USAGE)
    name = canonical(match[1]) if (match := _NAME.match(text)) else ""
    if address := _ADDRESS.search(text):
        return InstallSpec(text, name if address.start() else "", address[1])
    # As in pip, a name is never a folder of that name: the current folder changes nothing.
    if text.startswith((".", "~")) or os.sep in text or (text.endswith(ARCHIVES) and Path(text).exists()):
        return _path(text)
    for plugin in known_plugins():
        if name == canonical(plugin["name"]) != (theirs := plugin["distribution"]):
            raise Failure(f"the plugin {name} is in the distribution {theirs}: deep plugins install {theirs}", USAGE)
    return InstallSpec(text, name)


def _path(text: str, *, editable: bool = False) -> InstallSpec:
    location, extras = _PATH.fullmatch(text).groups("")  # type: ignore[union-attr]
    path = Path(location).expanduser().resolve()
    if not path.exists():
        raise Failure(f"{location}: no such file or folder", USAGE)
    return InstallSpec(f"{path}{extras}", _name_of(path), path.as_uri(), editable)


def _name_of(path: Path) -> str:
    if path.suffix == ".whl":
        return canonical(path.name.partition("-")[0])
    import tomllib

    try:
        return canonical(tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""  # only the build backend knows it
