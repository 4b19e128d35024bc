"""The records of uv and pipx about the environments that they made: what their next upgrade installs again.

`uv tool install` cannot add to a tool, it makes the tool anew from its arguments. So `uv pip` installs a plugin into
the tool's environment, and the plugin gets its line in the tool's receipt (here as uv 0.13 writes it), which
`uv tool upgrade` reads.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from deep_sessions import replace_private
from packaging.requirements import Requirement

from deep_core.plugin_api import canonical

from .spec import InstallSpec
from .target import PIPX, RECEIPT

__all__ = ["add_to_receipt", "injected_names", "remove_from_receipt", "settings"]

Entry = dict[str, Any]
_REQUIREMENTS = re.compile(r"^requirements = \[.*?\]$", re.M | re.S)


def add_to_receipt(prefix: Path, name: str, spec: InstallSpec) -> None:
    """Write a distribution into the receipt of the uv tool in a folder, in the place of an earlier line of its name.

    Raises:
        OSError: the receipt cannot be read or written.
        ValueError: it is not what uv 0.13 writes.
    """
    if name != canonical(prefix.name):
        entry = {"name": name, **_source(spec)}
        _change(prefix, lambda old: [*(each for each in old if canonical(each["name"]) != name), entry])


def remove_from_receipt(prefix: Path, name: str) -> None:
    """Take a distribution out of the receipt of the uv tool in a folder.

    Raises:
        OSError: the receipt cannot be read or written.
        ValueError: it is not what uv 0.13 writes.
    """
    _change(prefix, lambda old: [each for each in old if canonical(each["name"]) != name])


def _change(prefix: Path, change: Callable[[list[Entry]], list[Entry]]) -> None:
    file = prefix / RECEIPT
    text = file.read_text(encoding="utf-8")
    try:
        wanted = tomllib.loads(text)
        requirements = wanted["tool"]["requirements"] = change(wanted["tool"]["requirements"])
        lines = "".join(f"    {_toml(each)},\n" for each in requirements)
        new = _REQUIREMENTS.sub(lambda _: f"requirements = [\n{lines}]", text, count=1)
        if tomllib.loads(new) != wanted:
            raise ValueError("its requirements have another form")
    except (KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    replace_private(file, new)


def _toml(entry: Entry) -> str:
    """Write an entry as TOML. JSON's texts and lists are TOML's."""
    return f"{{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in entry.items())} }}"


def _source(spec: InstallSpec) -> Entry:
    if spec.editable:
        return {"editable": spec.text}
    if not spec.address:
        asked = Requirement(spec.text)
        found: Entry = {
            "extras": sorted(asked.extras),
            "specifier": str(asked.specifier),
            "marker": str(asked.marker or ""),
        }
        return {key: value for key, value in found.items() if value}
    if spec.address.startswith("file:"):
        path = unquote(urlsplit(spec.address).path)
        return {"directory" if Path(path).is_dir() else "path": path}
    if not spec.address.startswith("git+"):
        return {"url": spec.address}
    address, _, fragment = spec.address.removeprefix("git+").partition("#")
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")  # `git@host` has no revision
    path, _, revision = path.partition("@")
    subdirectory = re.search(r"(?:^|&)subdirectory=([^&]+)", fragment)
    query = {"subdirectory": subdirectory[1]} if subdirectory else {}
    query |= {"rev": revision} if revision else {}
    return {"git": f"{scheme}://{host}{slash}{path}" + (f"?{urlencode(query)}" if query else "")}


def settings(prefix: Path) -> str:
    """The settings of uv that a tool was installed with, as a `uv.toml`; "" for none.

    `uv tool upgrade` reads them in the receipt; `uv pip` has to be told.
    """
    try:
        text = (prefix / RECEIPT).read_text(encoding="utf-8")
    except OSError:
        return ""
    return text.partition("[tool.options]\n")[2].replace("[tool.options.", "[")


def injected_names(prefix: Path) -> set[str]:
    """The canonical names of the distributions injected into a pipx environment."""
    try:
        return set(map(canonical, json.loads((prefix / PIPX).read_text(encoding="utf-8"))["injected_packages"]))
    except (OSError, ValueError, KeyError, TypeError):
        return set()
