"""The page's fold, in node: whatever is cut, sent twice or replayed, the page loses nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.needs("npm")

Event = dict[str, Any]
Fold = Callable[..., dict[str, Any]]
FOLD = Path(__file__).parents[1] / "src" / "deep_web" / "static" / "fold.js"
LIVE = 1 << 16
TEXT = st.text("ab c\n*`", min_size=1, max_size=6)


@pytest.fixture(scope="module")
def fold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fold]:
    """Fold lists of events, with a restart of the server between two lists."""
    # As a module whatever the package.json above it says.
    module = tmp_path_factory.mktemp("fold") / "fold.mjs"
    shutil.copy(FOLD, module)
    command = ["node", str(Path(__file__).with_name("fold_server.mjs")), module.as_uri()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdin is not None
        assert node.stdout is not None

        def run(*events: list[Event]) -> dict[str, Any]:
            assert node.stdin is not None
            assert node.stdout is not None
            print(json.dumps({"events": events}), file=node.stdin, flush=True)
            return json.loads(node.stdout.readline())

        yield run
        node.stdin.close()


class History:
    """Events with their numbers: those of the journal, and the pieces that only the process of the run knows."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._entry = 0
        self._place = LIVE

    def stored(self, kind: str, **fields: Any) -> None:
        self._entry += 1
        self._place = LIVE
        self.events.append({"kind": kind, "n": self._entry << 24, "run_id": "r", **fields})

    def live(self, kind: str, **fields: Any) -> None:
        self._place += 1
        self.events.append({"kind": kind, "n": self._entry << 24 | self._place, "run_id": "r", **fields})


def is_stored(event: Event) -> bool:
    return event["n"] % (1 << 24) < LIVE


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """The events of some runs."""
    history, calls = History(), 0
    for _ in range(draw(st.integers(1, 3))):
        history.stored("run_started", text=draw(TEXT))
        for _ in range(draw(st.integers(0, 3))):
            for piece in draw(st.lists(TEXT, max_size=2)):
                history.live("thinking_added", text=piece)
            if draw(st.integers(0, 4)) == 0:
                history.live("text_added", text=draw(TEXT))
                history.live("request_retried", words="again at once", replaces=True)
            pieces = draw(st.lists(TEXT, max_size=4))
            for piece in pieces:
                history.live("text_added", text=piece)
            history.stored("message_added", role="assistant", text="".join(pieces))
            for _ in range(draw(st.integers(0, 2))):
                calls += 1
                history.stored("tool_started", call_id=f"c{calls}", tool="execute", args='{"command": "ls"}')
                if draw(st.booleans()):
                    history.stored("tool_ended", call_id=f"c{calls}", tool="execute", result=draw(TEXT))
            if draw(st.integers(0, 4)) == 0:
                history.stored("approvals_asked", calls=[f"c{calls}"])
                history.stored("run_started", attempt=2)
            if draw(st.integers(0, 4)) == 0:
                history.stored("message_added", role="user", text=draw(TEXT))  # it came by steer
        if draw(st.integers(0, 3)):
            history.stored("run_ended", status=draw(st.sampled_from(["completed", "failed", "aborted"])), message="why")
        else:
            history.live("run_interrupted", message="why")
    return history.events


@given(events=histories(), data=st.data())
def test_a_page_that_reconnects_shows_what_one_that_stayed_shows(fold: Fold, events: list[Event], data: Any) -> None:
    cut = data.draw(st.integers(0, len(events)))
    again = data.draw(st.integers(0, cut))  # what came before the cut may come once more
    assert fold([*events[:cut], *events[again:]]) == fold(events)


@given(events=histories(), data=st.data())
def test_a_restart_of_the_server_takes_nothing_off_the_page(fold: Fold, events: list[Event], data: Any) -> None:
    cut = data.draw(st.integers(1, len(events)))
    seen, replay = events[:cut], [event for event in events[:cut] if is_stored(event)]
    before, after = fold(seen), fold(seen, replay)
    there = iter(after["items"])
    for item in before["items"]:  # in the same order, with the same words
        if item["kind"] == "error":
            continue  # that a run was interrupted: the state says it now
        assert any(same(item, each) for each in there), (item, after["items"])
    assert fold(seen, replay, replay) == after


def same(item: dict[str, Any], other: dict[str, Any]) -> bool:
    return (item["kind"], item["text"]) == (other["kind"], other["text"])


def test_an_answer_that_was_cut_is_replaced_by_the_next_one(fold: Fold) -> None:
    history = History()
    history.stored("run_started", text="Hello")
    history.live("request_retried", words="is overloaded; again in 8 s", replaces=False)
    history.live("text_added", text="Good mor")
    history.live("request_retried", words="ended; again at once", replaces=True)
    history.live("text_added", text="Good day.")
    history.stored("message_added", role="assistant", text="Good day.")
    texts = [item["text"] for item in fold(history.events)["items"]]
    assert texts == ["Hello", "is overloaded; again in 8 s", "ended; again at once", "Good day."]


def test_text_that_was_cut_off_stays_above_the_new_answer(fold: Fold) -> None:
    history = History()
    history.stored("run_started", text="Hello")
    history.live("thinking_added", text="hm")
    history.live("text_added", text="Good mor")
    resumed = History()
    resumed.stored("run_started", text="Hello")
    resumed.stored("run_started", attempt=2)
    resumed.stored("message_added", role="assistant", text="Good day.")
    shown = fold(history.events, resumed.events[:1])
    assert [(item["kind"], item["text"], item.get("cut")) for item in shown["items"]] == [
        ("user", "Hello", None),
        ("thinking", "hm", False),
        ("assistant", "Good mor", True),
    ]
    answered = fold(history.events, resumed.events[:1], resumed.events)
    assert [item["text"] for item in answered["items"]] == ["Hello", "hm", "Good mor", "Good day."]


def test_a_message_that_was_stored_before_the_server_died_is_there_once(fold: Fold) -> None:
    history = History()
    history.stored("run_started", text="Hello")
    history.live("text_added", text="Good mor")
    replay = [history.events[0], {"kind": "message_added", "n": 2 << 24, "text": "Good morning."}]
    assert [item["text"] for item in fold(history.events, replay)["items"]] == ["Hello", "Good morning."]


def test_a_rewind_takes_items_back_and_another_one_brings_them_again(fold: Fold) -> None:
    history = History()
    history.stored("run_started", text="one")
    history.stored("message_added", role="assistant", text="1")
    history.stored("run_ended", status="completed")
    history.stored("run_started", text="two")
    history.live("thinking_added", text="hm")
    history.stored("tool_started", call_id="c", tool="execute", args="{}")
    seen = [*history.events]
    history.stored("history_replaced", to=4 << 24)
    assert [item["text"] for item in fold(history.events)["items"]] == ["one", "1"]
    replay = [event for event in history.events if is_stored(event)]
    assert [item["text"] for item in fold(seen, replay)["items"]] == ["one", "1"]
    history.stored("run_started", text="three")
    assert [item["text"] for item in fold(history.events)["items"]] == ["one", "1", "three"]
    history.stored("history_replaced", to=6 << 24)  # to before the first rewind
    assert [item["text"] for item in fold(history.events)["items"]] == ["one", "1", "two", "hm", ""]
    history.stored("tool_ended", call_id="c", tool="execute", result="done")
    assert fold(history.events)["items"][-1]["text"] == "done"


@pytest.mark.slow
def test_a_call_ends_as_it_ended_though_its_process_died(fold: Fold) -> None:
    history = History()
    history.stored("run_started", text="Run it")
    history.stored("tool_started", call_id="c", tool="execute", args="{}")
    history.stored("run_started", attempt=2)
    history.stored("tool_ended", call_id="c", tool="execute", outcome="unknown", result="nobody knows")
    (_, call) = fold(history.events)["items"]
    assert (call["state"], call["text"]) == ("unknown", "nobody knows")
    assert fold(history.events[:3])["items"][1]["state"] == "interrupted"
