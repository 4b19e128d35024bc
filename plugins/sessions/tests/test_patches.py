"""A patch turns one JSON value into another, whatever they are."""

from __future__ import annotations

import json
from typing import Any

from deep_sessions.patches import apply_patch, make_patch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import examples

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4)
)


@settings(max_examples=examples(500))
@given(VALUES, VALUES)
def test_a_patch_turns_the_old_value_into_the_new_one(old: Any, new: Any) -> None:
    before = json.dumps(old)
    patch = json.loads(json.dumps(make_patch(old, new)))
    assert apply_patch(old, patch) == new
    assert json.dumps(old) == before
    assert bool(patch) == (old != new)


def test_a_value_that_grows_is_not_written_whole() -> None:
    seen = {f"file{n}": {"hash": "x" * 40} for n in range(100)}
    grown = {**seen, "file0": {"hash": "y" * 40}, "new": {"hash": "z" * 40}}
    assert len(json.dumps(make_patch(seen, grown))) < 200
    assert make_patch([1] * 100, [1] * 100 + [2]) == {"keep": 100, "items": [2]}
