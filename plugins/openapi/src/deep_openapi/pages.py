"""The next page of a list, by the ways that services have: a link, an address in the answer, or a token."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import httpx2

from .operations import Operation, Parameter

__all__ = ["Next", "joined", "next_page", "pages_said"]

_LINK = re.compile(r'<([^<>]{1,10000})>\s*((?:;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^\s;,"]+)\s*)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))', re.IGNORECASE)
_HOLDERS = ("links", "_links", "meta", "metadata", "paging", "pagination", "page_info", "pageInfo", "response_metadata")
"""Where services write about pages, if not at the top."""


class Next(NamedTuple):
    """The next page.

    Attributes:
        args: that differ from this call's, by argument; what the model can call.
        url: the address, if the service gave one.
    """

    args: Mapping[str, Any]
    url: str = ""


def next_page(
    operation: Operation,
    args: Mapping[str, Any],
    here: httpx2.URL,
    link: str,
    body: Any,
    allowed: Callable[[httpx2.URL], bool],
) -> Next | None:
    """Return the next page, or None.

    Args:
        operation: that was called.
        args: of the call.
        here: the address of this page.
        link: the header `Link`.
        body: as parsed.
        allowed: whether an address may be called.
    """
    address = _linked(link)
    for holder in _holders(body):
        for key, given in holder.items():
            plain = _plain(key)
            if not plain.startswith("next") and not plain.endswith("nextlink"):
                continue
            value: Any = cast("Mapping[str, Any]", given).get("href") if _is_object(given) else given
            if isinstance(value, str) and value.startswith(("http://", "https://", "/", "?")):
                address = address or value
                continue
            parameter = _parameter(operation, plain) if isinstance(value, str | int) and value and not address else None
            if parameter is not None and args.get(parameter.argument) != value:
                return Next({parameter.argument: value})
    return _at(operation, here, address, allowed) if address else None


def _linked(header: str) -> str:
    """The address of `rel="next"` (RFC 8288)."""
    for match in _LINK.finditer(header[:20_000]):
        rel = _REL.search(match[2])
        if rel is not None and "next" in (rel[1] or rel[2]).lower().split():
            return match[1]
    return ""


def _at(operation: Operation, here: httpx2.URL, address: str, allowed: Callable[[httpx2.URL], bool]) -> Next | None:
    try:
        there = here.join(address[:10_000]).copy_with(fragment=None)
    except (httpx2.InvalidURL, ValueError):
        return None
    if not allowed(there):
        return None
    # A query with the credential: the service's own link may lack it.
    missing = [(k, v) for k, v in here.params.multi_items() if k not in there.params and _is_secret(operation, k)]
    for key, value in missing:
        there = there.copy_add_param(key, value)
    names = {p.name: p.argument for p in operation.parameters if p.where == "query"}
    changed = {
        names[key]: value for key, value in there.params.items() if key in names and here.params.get(key) != value
    }
    return Next(changed, str(there))


def _is_secret(operation: Operation, name: str) -> bool:
    return operation.credential is not None and name not in {p.name for p in operation.parameters}


def _holders(body: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(body, Mapping):
        top = cast("Mapping[str, Any]", body)
        yield top
        for key in _HOLDERS:
            if isinstance(inner := top.get(key), Mapping):
                yield cast("Mapping[str, Any]", inner)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _parameter(operation: Operation, key: str) -> Parameter | None:
    """The parameter of a token: `nextPageToken` is the next `pageToken`, `next` and `next_cursor` the next `cursor`."""
    wanted = {key, key.removeprefix("next")} - {""} or {"cursor", "after", "page", "offset"}
    wanted |= {"cursor", "after", "page", "offset"} if key == "next" else set()
    return next((p for p in operation.parameters if p.where == "query" and _plain(p.name) in wanted), None)


def joined(bodies: list[Any]) -> str:
    """Return several pages as one: the lists one after another, and the rest as the last page says it."""
    if all(isinstance(body, list) for body in bodies):
        return json.dumps([item for body in bodies for item in body], ensure_ascii=False)
    lists = [_lists(body) for body in bodies]
    if len(lists[0]) == 1 and all(each == lists[0] for each in lists):
        (key,) = lists[0]
        return json.dumps({**bodies[-1], key: [item for body in bodies for item in body[key]]}, ensure_ascii=False)
    return "\n".join(json.dumps(body, ensure_ascii=False) for body in bodies)


def _lists(body: Any) -> set[str]:
    return {k for k, v in cast("Mapping[str, Any]", body).items() if isinstance(v, list)} if _is_object(body) else set()


def _is_object(body: Any) -> bool:
    return isinstance(body, Mapping)


def pages_said(count: int, following: Next | None, problem: str) -> str:
    """Return what the model reads of pages: how many, and how to go on."""
    if following is None:
        return f"[{count} pages]" if count > 1 else ""
    how = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in following.args.items())
    why = f"; the next one failed: {problem}" if problem else ""
    return f"[page {count}; there are more{why}{f'; go on with {how}' if how else ''}]"[:2_000]
