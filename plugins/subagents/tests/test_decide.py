"""`decide`: names of waiting calls, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from deep_subagents import decide
from deep_subagents.approvals import answers, waiting_metadata
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic_ai import DeferredToolRequests, ToolApproved, ToolDenied
from pydantic_ai.messages import ToolCallPart


def requests_of(tree: dict[str, Any]) -> DeferredToolRequests:
    """Call id -> None for a call, or the calls of the subagent that waits below."""
    requests = DeferredToolRequests()
    for id, below in tree.items():
        requests.approvals.append(ToolCallPart("run" if below is None else "task", {}, tool_call_id=id))
        if below is not None:
            requests.metadata[id] = waiting_metadata("general-purpose", id, requests_of(below))
    return requests


TREE = {"t1": {"a": None, "t2": {"b": None, "c": None}}, "t3": {"d": None}, "own": None}


@pytest.mark.parametrize(
    ("decisions", "says"),
    [
        ({"x": True}, "no call 'x' waits. Waiting: 't1', 't1/a', 't1/t2', 't1/t2/b', 't1/t2/c', 't3', 't3/d', 'own'"),
        ({"t1/t2/bb": True}, "Did you mean 't1/t2/b'?"),
        ({"a": True}, "the subagent of 't1' also waits for a decision on 't1/t2/b' (run), 't1/t2/c' (run)"),
        ({"a": True, "t1/a": True}, "the call 't1/a' is decided twice"),
        ({"t1": ToolDenied(), "a": True}, "'t1' is decided as a whole, and so is 't1/a' below it"),
        ({"a": True, "t2": True, "b": True}, "'t1/t2' is decided as a whole, and so is 't1/t2/b' below it"),
        ({"a": "yes"}, "a decision is True, False, ToolApproved or ToolDenied, not 'yes'"),
    ],
)
def test_what_cannot_be_meant_is_refused(decisions: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        decide(requests_of(TREE), decisions)


def test_what_is_not_spoken_of_is_left_to_the_caller() -> None:
    results = decide(requests_of(TREE), {"d": True})
    assert set(results.approvals) == {"t3"}
    assert decide(requests_of(TREE), {}).approvals == {}
    assert decide(requests_of(TREE), {"own": False, "t1": True}).approvals == {"own": False, "t1": True}


def test_nothing_waits_in_a_run_without_approvals() -> None:
    with pytest.raises(ValueError, match="Waiting: none"):
        decide(DeferredToolRequests(), {"a": True})


ids = st.text("abc", min_size=1, max_size=2)
trees = st.recursive(st.none(), lambda below: st.dictionaries(ids, below, min_size=1, max_size=3), max_leaves=8)
said = st.one_of(
    st.booleans(),
    st.builds(ToolDenied, st.text(max_size=5)),
    st.builds(ToolApproved, override_args=st.none() | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)),
)


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = []
    for id, below in tree.items():
        out += [(*path, id)] if below is None else leaves(below, (*path, id))
    return out


def heard(tree: dict[str, Any], approvals: Any, metadata: Any, path: tuple[str, ...] = ()) -> dict[Any, Any]:
    """The decision that each call gets, by path, when the results go down level by level."""
    out: dict[Any, Any] = {}
    for id, below in tree.items():
        if below is None:
            out[*path, id] = approvals[id]
        else:
            inner = answers(requests_of(below), metadata.get(id))
            out |= heard(below, inner.approvals, inner.metadata, (*path, id))
    return out


@given(st.dictionaries(ids, trees, min_size=1, max_size=3), st.data())
def test_every_call_hears_exactly_what_was_decided_about_it(tree: dict[str, Any], data: st.DataObject) -> None:
    paths = leaves(tree)
    # A call of the agent's own has no path of its own to tell it from a subagent's call of the same id.
    assume(all(len(path) > 1 or [each[-1] for each in paths].count(path[0]) == 1 for path in paths))
    decisions = {path: data.draw(said) for path in paths}
    results = decide(requests_of(tree), {"/".join(path): decision for path, decision in decisions.items()})
    plain = {True: ToolApproved(), False: ToolDenied()}
    found = heard(tree, results.approvals, results.metadata)
    assert {path: plain[answer] if isinstance(answer, bool) else answer for path, answer in found.items()} == {
        path: plain[decision] if isinstance(decision, bool) else decision for path, decision in decisions.items()
    }
