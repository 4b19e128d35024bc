"""Parse the arguments of `deep plugins install`: names, paths or addresses, completed before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deep_core.plugin_api import canonical

from ...failure import USAGE, Failure

__all__ = ["InstallSpec", "parse"]

ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2")
OURS = (
    "all", "backends", "cli", "core", "demo", "filesystem", "prompted-tools", "sessions", "skills", "subagents",
    "summarization", "todo", "uploads", "universe", "web-tools",
)  # fmt: skip
"""Plugins whose distribution is `deep-<name>`: the bare name on an index belongs to someone else."""


@dataclass(frozen=True)
class InstallSpec:
    """One distribution to install.

    Attributes:
        text: for the installer, with an absolute path for a path.
        name: the distribution's canonical name; "" if only a build shows it.
        editable: whether to install it as a link to its folder.
        address: for a path or an address, the url of its `direct_url.json`; "" for a name.
    """

    text: str
    name: str
    editable: bool = False
    address: str = ""


def parse(names: Sequence[str], editables: Sequence[str] = ()) -> list[InstallSpec]:
    """Parse the arguments in order; relative paths are below the current folder.

    Raises:
        Failure: an argument is not a requirement, an existing path, or an address.
    """
    return [*(_parse(text) for text in names), *(_path(text, editable=True) for text in editables)]


def _parse(text: str) -> InstallSpec:
    from packaging.requirements import InvalidRequirement, Requirement

    if text.startswith("-"):
        raise Failure(f"{text!r} is not an option; `deep plugins install --help` lists them", USAGE)
    if _looks_like_path(text):
        return _path(text)
    if "://" in text and " @ " not in text:
        return _address(text)
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        first = str(error).splitlines()[0]
        raise Failure(f"{text!r} is not a name, path or address of a distribution: {first}", USAGE) from None
    name = canonical(requirement.name)
    if name in OURS:
        raise Failure(f"the plugin {name} is in the distribution deep-{name}: deep plugins install deep-{name}", USAGE)
    return InstallSpec(text, name, address=_plain(requirement.url or ""))


def _looks_like_path(text: str) -> bool:
    """As in pip, a name is never a folder of that name: the current folder changes nothing."""
    if "://" in text:
        return False
    return text.startswith((".", "~")) or os.sep in text or (text.endswith(ARCHIVES) and os.path.isfile(text))


def _path(text: str, *, editable: bool = False) -> InstallSpec:
    location, extras = re.fullmatch(r"(.*?)(\[[^\[\]]*\])?", text, re.S).groups("")  # type: ignore[union-attr]
    path = Path(location).expanduser().absolute().resolve()
    if not path.exists():
        raise Failure(f"{location}: no such file or folder", USAGE)
    if path.is_dir() and not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise Failure(f"{location} is not a distribution: it has no pyproject.toml", USAGE)
    if editable and not path.is_dir():
        raise Failure(f"-e {location}: only a folder can be installed as a link", USAGE)
    return InstallSpec(f"{path}{extras}", _name_of(path), editable, path.as_uri())


def _address(text: str) -> InstallSpec:
    egg = re.search(r"#(?:.*&)?egg=([A-Za-z0-9._-]+)", text)
    last = text.partition("#")[0].rpartition("/")[2]
    return InstallSpec(text, canonical(egg[1]) if egg else _of_wheel(last), address=_plain(text))


def _plain(address: str) -> str:
    """The address as in `direct_url.json`: without VCS, revision and fragment (PEP 610)."""
    without = re.sub(r"^[a-z]+\+", "", address.partition("#")[0])
    scheme, separator, rest = without.partition("://")
    host, slash, path = rest.partition("/")
    return scheme + separator + host + slash + (path.partition("@")[0] if without != address else path)


def _name_of(path: Path) -> str:
    if path.is_file():
        return _of_wheel(path.name)
    import tomllib

    try:
        name = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # only the build backend knows; the installer reports errors
    return canonical(name) if isinstance(name, str) else ""


def _of_wheel(file: str) -> str:
    return canonical(file.partition("-")[0]) if file.endswith(".whl") else ""
