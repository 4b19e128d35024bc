"""The distribution that a module comes from: what it requires, and whether the module really comes from it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from deep_core.plugin_api import site_directories

__all__ = ["Owner", "find_owner", "shadowing_file"]

PYDANTIC_AI = ("pydantic-ai-slim", "pydantic-ai")


@dataclass(frozen=True)
class Owner:
    """An installed distribution.

    Attributes:
        name: of the distribution.
        version: of the distribution.
        requirements: as its metadata has them.
    """

    name: str
    version: str
    requirements: tuple[Requirement, ...]

    def pin_problem(self) -> str | None:
        """Return why it does not fit the installed Pydantic AI; None if it fits."""
        for needs in self.requirements:
            if canonicalize_name(needs.name) in PYDANTIC_AI and not _extras(needs):
                try:
                    installed = metadata.version(needs.name)
                except metadata.PackageNotFoundError:
                    continue
                if not needs.specifier.contains(installed, prereleases=True):
                    return f"{self.name} {self.version} needs {needs}, and {installed} is installed"
        return None

    def extra_with(self, module: str) -> str | None:
        """Return the extra that brings a module, by the name of its distribution."""
        wanted = canonicalize_name(module)
        for needs in self.requirements:
            if (extras := _extras(needs)) and wanted in (canonicalize_name(needs.name), canonicalize_name(needs.name)):
                return extras[0]
        return None


@cache
def find_owner(module: str) -> Owner | None:
    """Return the distribution of a top-level module; None if no distribution has it."""
    try:
        found = metadata.distribution(module.replace("_", "-"))
    except (metadata.PackageNotFoundError, ValueError):
        names = metadata.packages_distributions().get(module)
        if not names:
            return None
        found = metadata.distribution(names[0])
    return Owner(found.metadata["Name"], found.version, tuple(_requirements(found)))


def shadowing_file(module: str) -> str | None:
    """Return the file of a top-level module that the current directory provides, and no installed distribution.

    The model may write files there: with the current directory on `sys.path`, such a file could run as what the user
    named.
    """
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    where = spec.origin if spec.has_location else next(iter(spec.submodule_search_locations or ()), None)
    if where is None:
        return None
    here, origin = os.path.realpath(os.getcwd()), os.path.realpath(where)
    installed = (*site_directories(), *_editable_roots())
    if not _below(origin, here) or any(_below(origin, folder) for folder in installed):
        return None
    return origin


def _below(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder


def _editable_roots() -> Iterator[str]:
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    for found in metadata.distributions(path=site_directories()):
        text = found.read_text("direct_url.json")
        origin: Any = json.loads(text) if text else {}
        if origin.get("dir_info", {}).get("editable"):
            yield os.path.realpath(url2pathname(urlsplit(str(origin["url"])).path))


def _requirements(found: metadata.Distribution) -> Iterator[Requirement]:
    for text in found.requires or ():
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue


def _extras(needs: Requirement) -> list[str]:
    """The extras of a requirement's marker: `extra == 'exa'`."""
    text = str(needs.marker or "").replace('"', "'")
    return [part.partition("'")[0] for part in text.split("extra == '")[1:]]
