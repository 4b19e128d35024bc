"""Sessions of a toolset in agents that are not of deep_core: one for each conversation, bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from deep_core import SessionStates, StateSlot, create_default_deps

SEEN: StateSlot[list[str]] = StateSlot("seen", list[str], default=list)


def run(deps: object = None, *, conversation: str | None = None, run_id: str = "run") -> Any:
    return SimpleNamespace(deps=deps, conversation_id=conversation, run_id=run_id)


def test_a_session_in_deps_keeps_its_own_state() -> None:
    deps = create_default_deps()
    assert SessionStates().state(run(deps, conversation="one")) is deps.state


def test_a_conversation_has_one_state_and_no_other_sees_it() -> None:
    states = SessionStates()
    states.state(run(conversation="one"))[SEEN].append("a")
    assert states.state(run(conversation="one", run_id="later"))[SEEN] == ["a"]
    assert states.state(run(conversation="two"))[SEEN] == []
    assert states.state(run(run_id="run"))[SEEN] == []
    assert SessionStates().state(run(conversation="one"))[SEEN] == []


def test_the_conversation_that_is_unused_for_longest_is_forgotten() -> None:
    states = SessionStates()
    for name in ("one", "two", "one", *map(str, range(999))):
        states.state(run(conversation=name))[SEEN].append(name)
    assert states.state(run(conversation="one"))[SEEN] == ["one", "one"]
    assert states.state(run(conversation="two"))[SEEN] == []
