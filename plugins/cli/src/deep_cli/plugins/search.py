"""Search plugins: in the list that comes with deep-cli, and on the index by the keyword `deep-plugin`."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from importlib.resources import files
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from deep_core.plugin_api import canonical

__all__ = ["KEYWORD", "FoundPlugin", "index_url", "known_plugins", "search_index", "search_known"]

KEYWORD = "deep-plugin"
FILE = "plugins.json"
SIMPLE = "application/vnd.pypi.simple.v1+json"
"""PEP 691."""
INDEX = "https://pypi.org/simple/"
VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
SECONDS = 5.0
MOST_BYTES = 10_000_000


@dataclass(frozen=True)
class FoundPlugin:
    """A plugin that a search found.

    Attributes:
        distribution: what pip installs.
        about: its one line.
        name: of the plugin; "" if the index does not say it.
        tokens: of each request with nothing configured; None if it is not known.
        url: its documentation; "" for none.
        version: the newest on the index; "" for a plugin of the list.
    """

    distribution: str
    about: str
    name: str = ""
    tokens: int | None = None
    url: str = ""
    version: str = ""


def known_plugins() -> list[dict[str, Any]]:
    """Return the entries of the list: package data of a wheel, added by hatch_build.py; in a checkout the original."""
    packaged = files("deep_cli").joinpath(FILE)
    original = Path(__file__).resolve().parents[5] / "docs" / FILE
    return json.loads((packaged if packaged.is_file() else original).read_text(encoding="utf-8"))


def search_known(words: Sequence[str]) -> list[FoundPlugin]:
    """Return the plugins of the list that have every word in a name or a text."""
    wanted = [word.casefold() for word in words]
    found: list[FoundPlugin] = []
    for each in known_plugins():
        text = " ".join((each["name"], each["distribution"], each["about"], each["brings"])).casefold()
        if all(word in text for word in wanted):
            url = each["url"] if each.get("others") else ""
            found.append(FoundPlugin(each["distribution"], each["about"], each["name"], each["tokens"], url))
    return found


def index_url() -> str:
    """Return the index that pip or uv is told to use by the environment, else PyPI."""
    return next((os.environ[name] for name in VARIABLES if os.environ.get(name)), INDEX)


def search_index(words: Sequence[str], index: str) -> list[FoundPlugin]:
    """Return the distributions called like the words, with or without `deep-`, that have the keyword.

    No index can be searched by keyword, so a distribution of another name is not found.

    Args:
        words: joined with hyphens.
        index: the address of a simple repository (PEP 503) that answers in JSON (PEP 691).

    Raises:
        OSError: the index does not answer.
        ValueError: its answer, or its address, is none.
    """
    name = canonical("-".join(words))
    names = dict.fromkeys((name, f"deep-{name.removeprefix('deep-')}"))
    return [found for each in names for found in _ask(each, index)]


def _ask(name: str, index: str) -> Iterator[FoundPlugin]:
    address = urljoin(index.rstrip("/") + "/", quote(name, safe="") + "/")
    try:
        content, kind = _get(address, SIMPLE)
    except HTTPError as error:
        if error.code == 404:
            return
        raise
    if not kind.startswith(SIMPLE):
        raise ValueError("it does not answer in JSON (PEP 691)")
    # Files are in the order of uploads on PyPI, which PEP 691 does not promise: the last one with metadata is newest.
    data: Any = json.loads(content)
    entries = cast("list[dict[str, Any]]", data["files"] if isinstance(data, dict) else [])
    entries = [each for each in entries if not each.get("yanked") and _has_metadata(each)]
    if not entries:
        return
    headers = BytesHeaderParser().parsebytes(_get(urljoin(address, f"{entries[-1]['url']}.metadata"), "*/*")[0])
    keywords = (headers.get("Keywords") or "").replace(",", " ").split()
    if KEYWORD in keywords:
        yield FoundPlugin(
            headers.get("Name") or name, headers.get("Summary") or "", version=headers.get("Version") or ""
        )


def _has_metadata(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("core-metadata") or entry.get("data-dist-info-metadata"))


def _get(address: str, accept: str) -> tuple[bytes, str]:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https"):
        raise ValueError("its address does not begin with https://")
    host = parts.netloc.rpartition("@")[2]
    headers = {"Accept": accept, "User-Agent": "deep-cli"}
    request = Request(urlunsplit(parts._replace(netloc=host)), headers=headers)  # noqa: S310 - as below
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
    with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - http and https alone
        content = answer.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"its answer has more than {MOST_BYTES:,} bytes")
        return content, answer.headers.get("Content-Type", "")
