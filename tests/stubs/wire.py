"""Is one request, as the provider got it, a prefix of the next? The property that prompt caches live on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

_SHOWN = 120


@dataclass(frozen=True)
class WireDiff:
    """The first place where the later request stops continuing the earlier one.

    Attributes:
        path: Where in the body, for example `messages[2].content[0].text`.
        offset: Index of the first differing character: inside the string at `path` if both sides are strings there,
            else inside the compact JSON of the value.
        previous: The earlier request's text from shortly before the difference.
        current: The later request's text from there.
    """

    path: str
    offset: int
    previous: str
    current: str

    def __str__(self) -> str:
        return (
            f"the later request does not continue the earlier one: {self.path} differs at character {self.offset}\n"
            f"  earlier: {self.previous}\n  later:   {self.current}"
        )


def wire_prefix(previous: Mapping[str, Any], current: Mapping[str, Any]) -> WireDiff | None:
    """Compare two consecutive request bodies of one conversation, Chat Completions or Messages API.

    Holds when `tools` and `system` are equal and every message of `previous` is equal to the one at the same place in
    `current`. Anthropic's `cache_control` markers are ignored: they move by design and are no prompt text; a text and
    a list with that one text block are equal there, because only the list can carry a marker. The order of keys
    counts, since it is part of the bytes that a cache keys on.

    Returns:
        None if it holds, else the first difference.
    """
    anthropic = any(_is_anthropic(body) for body in (previous, current))
    for key in ("tools", "system"):
        before, after = (_plain(body.get(key, _ABSENT), anthropic, key == "system") for body in (previous, current))
        if diff := _diff(key, before, after):
            return diff
    earlier = cast("Sequence[Any]", previous.get("messages", []))
    later = cast("Sequence[Any]", current.get("messages", []))
    for index, message in enumerate(earlier):
        after = _message(later[index], anthropic) if index < len(later) else _ABSENT
        if diff := _diff(f"messages[{index}]", _message(message, anthropic), after):
            return diff
    return None


def assert_wire_prefix(previous: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Raise `AssertionError` with the position if `current` does not continue `previous`."""
    if diff := wire_prefix(previous, current):
        raise AssertionError(str(diff))


def assert_wire_prefixes(requests: Sequence[Mapping[str, Any]]) -> None:
    """Check every consecutive pair; raises `AssertionError` naming the pair, or if there is no pair to check."""
    if len(requests) < 2:
        raise AssertionError(f"{len(requests)} request(s) recorded: there is no pair to compare")
    for index, (previous, current) in enumerate(pairwise(requests)):
        if diff := wire_prefix(previous, current):
            raise AssertionError(f"requests {index} and {index + 1}: {diff}")


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


_ABSENT = _Absent()


def _is_anthropic(body: Mapping[str, Any]) -> bool:
    if "system" in body or any("input_schema" in tool for tool in body.get("tools", [])):
        return True
    # A body with neither: only the Messages API sends markers, tool results and calls as content blocks.
    for message in body.get("messages", []):
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if isinstance(block, dict):
                fields = cast("dict[str, object]", block)
                if "cache_control" in fields or fields.get("type") in ("tool_use", "tool_result"):
                    return True
    return False


def _message(message: Any, anthropic: bool) -> Any:
    if not anthropic:
        return message
    return {key: _plain(value, anthropic, key == "content") for key, value in message.items()}


def _plain(value: Any, anthropic: bool, text: bool) -> Any:
    """Without cache markers; only blocks and tools carry them, so a tool's arguments of that name are left alone."""
    if not anthropic:
        return value
    if text and isinstance(value, str):
        return [{"type": "text", "text": value}]
    if not isinstance(value, list):
        return value
    blocks: list[Any] = []
    for block in cast("list[Any]", value):
        if not isinstance(block, dict):
            blocks.append(block)
            continue
        plain = {key: item for key, item in cast("dict[str, Any]", block).items() if key != "cache_control"}
        if plain.get("type") == "tool_result" and "content" in plain:
            plain["content"] = _plain(plain["content"], anthropic, True)
        blocks.append(plain)
    return blocks


def _diff(path: str, before: object, after: object) -> WireDiff | None:
    if isinstance(before, dict) and isinstance(after, dict):
        one, two = cast("dict[str, object]", before), cast("dict[str, object]", after)
        if list(one) == list(two):
            return next((diff for key in one if (diff := _diff(f"{path}.{key}", one[key], two[key]))), None)
        return _located(path, one, two)
    if isinstance(before, list) and isinstance(after, list):
        first, second = cast("list[object]", before), cast("list[object]", after)
        for index in range(max(len(first), len(second))):
            a = first[index] if index < len(first) else _ABSENT
            b = second[index] if index < len(second) else _ABSENT
            if diff := _diff(f"{path}[{index}]", a, b):
                return diff
        return None
    # The types too: True is not 1 on the wire.
    if type(before) is type(after) and before == after:  # pyright: ignore[reportUnknownArgumentType]
        return None
    return _located(path, before, after)  # pyright: ignore[reportUnknownArgumentType]


def _located(path: str, before: object, after: object) -> WireDiff:
    left, right = _shown(before), _shown(after)
    pairs = zip(left, right, strict=False)
    offset = next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    start = max(0, offset - _SHOWN // 4)
    return WireDiff(path, offset, left[start : start + _SHOWN], right[start : start + _SHOWN])


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, _Absent) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
