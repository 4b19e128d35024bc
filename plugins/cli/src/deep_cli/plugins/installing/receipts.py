"""Read the records of uv and pipx about their environments, as arguments that would make them again.

`uv tool install` replaces a tool's earlier arguments and removes what is not repeated. So read the receipt, and fail
on anything that cannot be repeated faithfully.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit, urlunsplit

from deep_core.plugin_api import canonical

from ...failure import Failure
from .target import PIPX, RECEIPT

__all__ = ["Receipt", "injected_names", "pipx_backend", "read_receipt"]

LISTS = {
    "constraints": "--constraints", "overrides": "--overrides", "build-constraints": "--build-constraints",
    "excludes": "--excludes",
}  # fmt: skip
"""Key of the receipt -> the option that takes it from a file."""
KNOWN = {"requirements", "python", "entrypoints", "options", *LISTS}
KEYS = {"name", "extras", "marker", "specifier", "url", "path", "directory", "editable", "git"}


@dataclass(frozen=True)
class Receipt:
    """A tool of uv, as `uv-receipt.toml` describes it (seen with uv 0.13).

    Attributes:
        tool: arguments for the tool itself: `("deep-cli",)` or `("--editable", "/path")`.
        others: canonical name -> arguments, for each distribution installed with it.
        python: the requested interpreter, "" for any.
        lists: option -> lines of its file.
        options: uv's settings at installation, as TOML.
        scripts: the folder of its commands, "" for none.
        executables: other distributions with exposed commands.
    """

    tool: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]]
    python: str
    lists: Mapping[str, tuple[str, ...]]
    options: str
    scripts: str
    executables: tuple[str, ...]


def read_receipt(prefix: Path) -> Receipt:
    """Read the receipt of the uv tool in a folder.

    Raises:
        Failure: it cannot be read, or has an entry that this version cannot repeat.
    """
    file = prefix / RECEIPT
    try:
        tool: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]
        requirements: list[dict[str, Any]] = tool["requirements"]
        unknown = sorted((set(tool) - KNOWN).union(*(set(entry) - KEYS for entry in requirements)))
        if unknown:
            raise Failure(
                f"{file}: deep-cli does not know {', '.join(unknown)}, so it cannot repeat how the tool was "
                "installed. Install it again yourself, with all its plugins: "
                "uv tool install deep-cli --with PLUGIN --with …"
            )
        main = next(entry for entry in requirements if canonical(entry["name"]) == canonical(prefix.name))
        points: list[dict[str, str]] = tool.get("entrypoints", [])
        return Receipt(
            tool=("--editable", main["editable"]) if "editable" in main else (_text(main),),
            others={canonical(entry["name"]): _with(entry) for entry in requirements if entry is not main},
            python=tool.get("python", ""),
            lists={
                option: tuple(entry if isinstance(entry, str) else _text(entry) for entry in tool[key])
                for key, option in LISTS.items()
                if tool.get(key)
            },
            options="".join(f"{key} = {_toml(value)}\n" for key, value in tool.get("options", {}).items()),
            scripts=str(Path(points[0]["install-path"]).parent) if points else "",
            executables=tuple(
                dict.fromkeys(
                    p["from"] for p in points if canonical(p.get("from", prefix.name)) != canonical(prefix.name)
                )
            ),
        )
    except (OSError, ValueError, KeyError, TypeError, StopIteration, AttributeError) as error:
        raise Failure(
            f"{file} cannot be read ({type(error).__name__}: {error}); uv tool install --reinstall deep-cli"
        ) from error


def _with(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return ("--with-editable", entry["editable"]) if "editable" in entry else ("--with", _text(entry))


def _text(entry: Mapping[str, Any]) -> str:
    """Format one requirement of the receipt as PEP 508."""
    extras = entry.get("extras")
    name = str(entry["name"]) + (f"[{','.join(extras)}]" if extras else "")
    marker = f" ; {entry['marker']}" if "marker" in entry else ""
    if "git" in entry:
        return f"{name} @ {_git(entry['git'])}{marker}"
    if "url" in entry:
        return f"{name} @ {entry['url']}{marker}"
    for key in ("path", "directory"):
        if key in entry:
            return f"{name} @ {Path(entry[key]).as_uri()}{marker}"
    return f"{name}{entry.get('specifier', '')}{marker}"


def _git(address: str) -> str:
    """Rewrite revision and subdirectory, which uv keeps as a query: `https://host/x?rev=main`."""
    url = urlsplit(address)
    query = parse_qs(url.query)
    revision = next((query[key][0] for key in ("rev", "tag", "branch") if key in query), "")
    subdirectory = query.get("subdirectory", [""])[0]
    plain = urlunsplit((url.scheme, url.netloc, url.path, "", ""))
    return (
        f"git+{plain}"
        + (f"@{revision}" if revision else "")
        + (f"#subdirectory={subdirectory}" if subdirectory else "")
    )


def _toml(value: Any) -> str:
    """Format a value of the receipt as TOML. JSON's texts, numbers and lists are TOML's."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in cast("list[Any]", value)) + "]"
    if isinstance(value, (str, bool, int, float)):
        return json.dumps(value)
    return str(value)  # a date, as TOML writes it


def injected_names(prefix: Path) -> frozenset[str]:
    """The canonical names of the distributions injected into a pipx environment."""
    packages: Any = _pipx(prefix).get("injected_packages")
    return frozenset(canonical(name) for name in cast("dict[str, Any]", packages or {}))


def pipx_backend(prefix: Path) -> str:
    """The installer that pipx uses there: `pip` or `uv`."""
    return str(_pipx(prefix).get("backend") or "pip")


def _pipx(prefix: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads((prefix / PIPX).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(f"{prefix / PIPX} cannot be read ({error}); pipx reinstall {prefix.name}") from error
    if not isinstance(data, dict):
        raise Failure(f"{prefix / PIPX} holds no table; pipx reinstall {prefix.name}")
    return cast("dict[str, Any]", data)
