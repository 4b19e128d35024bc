"""The difference of two JSON values: a slot that grows is not written whole each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq, indexOf
from typing import Any, cast

__all__ = ["apply_patch", "common_start", "make_patch"]


def common_start(old: Sequence[Any], new: Sequence[Any], same: Callable[[Any, Any], bool] = eq) -> int:
    """Return how many items at the start of two lists are the same."""
    # Without a step of Python for each: a long conversation is compared at every request.
    try:
        return indexOf(map(same, old, new), False)
    except ValueError:
        return min(len(old), len(new))


def make_patch(old: Any, new: Any) -> dict[str, Any]:
    """Return what turns `old` into `new`; empty if they are equal, as 1 and True are.

    A patch is `{"value": …}`; or for two objects `{"keys": {key: patch}, "gone": [key, …]}`; or for two lists with the
    same beginning `{"keep": number of items, "items": […]}`.
    """
    if old == new:
        return {}
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        # Most values are the same object as before, and `!=` would look into each of them.
        changed = [
            key for key, value in after.items() if (was := before.get(key, _NOTHING)) is not value and was != value
        ]
        keys = {key: make_patch(before.get(key, _NOTHING), after[key]) for key in changed}
        gone = [key for key in before if key not in after]
        return {**({"keys": keys} if keys else {}), **({"gone": gone} if gone else {})}
    if isinstance(old, list) and isinstance(new, list):
        earlier, later = cast("list[Any]", old), cast("list[Any]", new)
        if keep := common_start(earlier, later):
            return {"keep": keep, "items": later[keep:]}
    return {"value": new}


def apply_patch(old: Any, patch: Mapping[str, Any]) -> Any:
    """Return `old` with a patch of `make_patch` applied; `old` stays as it is."""
    if "value" in patch:
        return patch["value"]
    if "keep" in patch:
        return [*old[: patch["keep"]], *patch["items"]]
    if not patch:
        return old
    out: dict[str, Any] = {key: value for key, value in old.items() if key not in patch.get("gone", ())}
    for key, inner in patch.get("keys", {}).items():
        out[key] = apply_patch(out.get(key), inner)
    return out


_NOTHING: Any = object()
