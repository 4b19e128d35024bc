"""Every way in which a request can end, on three wires, whole and as a stream, at six doors.

A cell is one conversation: what the user sees, what is stored, that *retry* works, and that the next message works. A
row says what is so at every door; a door says what differs there. The tables of docs/when-something-goes-wrong.md are
made of them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from deep_sessions.requests import breaker
from deep_sessions.requests import model as guarded
from deep_sessions.requests.patience import Patience
from deep_sessions.requests.silence import Watch

from deep_core.plugins import kernel as kernels
from tests.environments import REPOSITORY
from tests.failing_doors import DOORS, Door, Way
from tests.failing_provider import HALF, WIRES, Answer, FailingProvider, Wire, failing_provider

PAGE = REPOSITORY / "docs/when-something-goes-wrong.md"
ALLOWED = "acp,backends,cli,deep-durable,filesystem,sessions,uploads,web"
FIRST, SECOND, THIRD = "Remember amber.", "Add cobalt.", "Add jade."


class Row(NamedTuple):
    """How a request ends, and what follows at every door.

    Attributes:
        name: for people.
        answers: what the provider answers; the last one again and again.
        reason: `finish_reason` of the run.
        code: of a failed run; "" for one that completed.
        sent: how often the request was sent.
        says: a pattern of what the user sees, besides an answer.
    """

    name: str
    answers: tuple[Answer, ...]
    reason: str
    code: str
    sent: int
    says: str = ""


CUT = "the connection ended before the answer did"
ROWS = (
    Row("the model ends its answer", ("stop",), "stop", "", 1),
    Row("the model calls a tool, then answers", ("tool_call", "stop"), "stop", "", 2),
    Row("the answer is cut at its limit", ("length",), "length", "", 1, r"cut at the (model's )?limit of tokens"),
    Row("a call is cut at the limit, then made again", ("cut_call", "tool_call", "stop"), "stop", "", 3),
    Row("a content filter ends it", ("filtered",), "filtered", "", 1, r"content filter ended"),
    Row("the connection breaks, then works", ("cut", "stop"), "stop", "", 2, CUT),
    Row("the connection breaks again and again", ("cut",), "incomplete", "cut", 3, CUT),
    Row("the provider is busy, then works", (429, 503, "stop"), "stop", "", 3, r"allows no more requests now"),
    Row("it does not answer in time", (408,), "transient", "timed_out", 3, r"did not answer in time"),
    Row("it is busy with the same data", (409,), "transient", "conflict", 3, r"busy with the same data"),
    Row("it allows no more requests now", (429,), "transient", "rate_limited", 3, r"allows no more"),
    Row("it has an error of its own", (500,), "transient", "server_error", 3, r"error of its own"),
    Row("it is not available", (503,), "transient", "unavailable", 3, r"not available"),
    Row("it is overloaded", (529,), "transient", "overloaded", 3, r"overloaded"),
    Row("it cannot be reached", ("refuses",), "transient", "unreachable", 0, r"cannot be reached"),
    Row("the body is a page of a proxy", ("html",), "transient", "garbled", 3, r"cannot be read"),
    Row("the server only keeps the connection open", ("silent",), "transient", "timed_out", 3, r"longer than|in time"),
    Row("the request is larger than the window", ("overflow",), "overflow", "window_full", 1, r"window"),
    Row("a field is wrong", (422,), "permanent", "rejected", 1, r"a field is wrong"),
    Row("the request is wrong", (400,), "permanent", "rejected", 1, r"not now"),
    Row("the key is wrong", (401,), "permanent", "unauthorized", 1, r"invalid key"),
    Row("the key is not for this model", (403,), "permanent", "unauthorized", 1, r"not for this key"),
    Row("the model does not exist", (404,), "permanent", "unknown_model", 1, r"no such model"),
)


class Says(NamedTuple):
    """What is so at one door.

    Attributes:
        name: of the interface, for the page.
        shows: how a person sees that a run failed, for the page.
        again: how it is tried again, for the page.
        failed: a pattern of what is shown of a run that failed.
        not_whole: the same, of an answer that is not whole.
        completed: the same, of a retry of a run that completed.
    """

    name: str
    shows: str
    again: str
    failed: str
    not_whole: str
    completed: str


SAYS = {
    "run": Says(
        "`deep run`",
        "`Failed`, the cause, exit code 1",
        "`deep run --session ID --retry`",
        r"Failed[^$]*exit code 1",
        r"Cut off|Filtered",
        "its last run completed",
    ),
    "chat": Says(
        "`deep chat`",
        "`✗` and the cause",
        "`/retry`",
        r"✗ [^$]*/retry tries again",
        "✗ the answer is not whole",
        "nothing to try again",
    ),
    "page": Says(
        "page",
        "`The run failed.` and the cause",
        "*Try again*",
        r"The run failed\.[^$]*\[Try again\]",
        "This answer is not whole",
        "nothing to try again",
    ),
    "editor": Says(
        "editor",
        "an error of the turn",
        "`/retry`",
        r"the run failed: [^$]*/retry tries it again",
        "This answer is not whole",
        "completed",
    ),
    "embedded": Says(
        "program",
        "`RunResult.error`",
        "`DeepAgent.retry`",
        r"^failed ",
        r"completed (length|filtered)",
        "NothingToResume",
    ),
    "worker": Says(
        "worker",
        "`deep sessions show`, `deep workers`",
        "by itself where it can succeed later, else `deep run --session ID --retry`",
        r"failed: [^$]*deep run --session \S+ --retry",
        "not whole",
        "its last run completed",
    ),
}


def _cell(row: int, wire: int, door: type[Door], way: Way) -> Any:
    """A cell with its marks: `make test` and `make test-slow` have each row at each door, the night has all."""
    turn = row % 3 == wire and (door.name != "run" or door.ways[row % 2] == way)
    is_slow = door.name in ("run", "page", "worker") or (door.name == "embedded" and not turn)
    marks = [pytest.mark.slow] if is_slow else []
    if not turn and door.name != "embedded":
        marks.append(pytest.mark.exhaustive)
    if door.name == "page":
        marks.append(pytest.mark.needs("npm"))
    name = "-".join((ROWS[row].name, WIRES[wire], door.name, way))
    return pytest.param(ROWS[row], WIRES[wire], door, way, marks=marks, id=name)


CELLS = [
    _cell(row, wire, door, way)
    for wire in range(len(WIRES))
    for door in DOORS
    for way in door.ways
    for row in range(len(ROWS))
]
Find = Callable[[Wire, type[Door], Way], Door]


@pytest.fixture(scope="module")
def providers() -> Iterator[dict[Wire, FailingProvider]]:
    with contextlib.ExitStack() as stack:
        yield {wire: stack.enter_context(failing_provider(wire)) for wire in WIRES}


@pytest.fixture(scope="module")
def find(providers: dict[Wire, FailingProvider], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Find]:
    """Returns a door, which is opened once."""
    opened: dict[tuple[Wire, type[Door], Way], Door] = {}

    def found(wire: Wire, door: type[Door], way: Way) -> Door:
        key = (wire, door, way)
        if key not in opened:
            opened[key] = door(providers[wire], tmp_path_factory.mktemp(f"{wire}-{door.name}-{way}"), way)
        return opened[key]

    yield found
    for door in reversed(opened.values()):
        door.close()


@pytest.fixture(autouse=True, scope="module")
def _own_process() -> Iterator[None]:
    """Other tests of this process share a default kernel and an environment, which would keep the allow list of these.

    A door patches the environment as it is within a test, and is closed after the last one.
    """
    with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ):
        patch.setattr(kernels, "_default", None)
        yield


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, providers: dict[Wire, FailingProvider]) -> None:
    """No outage of the cell before, and little time for a provider that is silent, and only for that."""

    class Hurried(Watch):
        def __init__(self, model_name: str, patience: Patience) -> None:
            is_silent = any(provider.is_silent for provider in providers.values())
            super().__init__(model_name, patience._replace(timeout=0.1) if is_silent else patience)

    monkeypatch.setattr(guarded, "Watch", Hurried)
    monkeypatch.setattr(breaker, "_BREAKERS", {})
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", ALLOWED)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))


@pytest.mark.parametrize(("row", "wire", "door", "way"), CELLS)
def test_a_cell(row: Row, wire: Wire, door: type[Door], way: Way, find: Find, tmp_path: Path) -> None:
    here = find(wire, door, way)
    provider, says = here.provider, SAYS[door.name]
    here.begin()
    waits = here.tries_itself and row.reason in ("transient", "incomplete")
    provider.play(*row.answers)
    before = len(provider.asked)
    here.say(FIRST)
    sent, seen, kept = len(provider.asked) - before, here.seen(), here.kept()

    # What the user sees.
    if row.reason != "stop" or here.shows_waits:
        assert re.search(row.says, seen), seen
    if row.reason == "stop":
        assert kept.answers[-1] in seen
    elif not row.code:
        assert HALF in seen
        assert re.search(says.not_whole, seen), seen
    elif not waits:
        assert re.search(says.failed, seen), seen
    # What is stored.
    assert kept.prompts == [FIRST]
    if waits:
        assert kept.status == "running"
    else:
        assert (kept.status, kept.reason, kept.code) == ("failed" if row.code else "completed", row.reason, row.code)
        # A request that is given up early may not have reached the server, and a worker asks again on its own.
        exact = "silent" not in row.answers and not here.tries_itself
        assert sent == row.sent if exact else sent <= row.sent + here.tries_itself
    notes = [f"effect {before + at}" for at, answer in enumerate(row.answers, 1) if answer == "tool_call"]
    assert _lines(tmp_path / "notes") == notes  # a call that was cut has not run

    # Retry.
    provider.play("stop")
    before = len(provider.asked)
    here.retry()
    if not row.code:
        assert len(provider.asked) == before
        assert re.search(says.completed, here.seen()), here.seen()
    else:
        late = row.sent if "silent" in row.answers else 0  # a request that was given up early may come now
        assert 1 <= len(provider.asked) - before <= 1 + late
        assert provider.said().count(FIRST) == 1
        kept = here.kept()
        assert (kept.status, kept.prompts, len(kept.answers)) == ("completed", [FIRST], 1)
        assert kept.answers[0] in here.seen()
        # A message whose run fails stays, and the next one follows it.
        provider.play(*row.answers)
        here.say(SECOND)

    # The next message.
    provider.play("stop")
    here.say(THIRD)
    said = [FIRST, SECOND, THIRD] if row.code else [FIRST, THIRD]
    asked = provider.said(THIRD)
    assert [asked.count(text) for text in said] == [1] * len(said)
    assert sorted(said, key=asked.index) == said
    kept = here.kept()
    assert (kept.status, kept.prompts) == ("completed", said)
    assert kept.answers[-1] in here.seen()
    assert _lines(tmp_path / "notes") == notes


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


def test_there_are_enough_cells() -> None:
    assert len(CELLS) >= 500
    assert sum("exhaustive" not in {mark.name for mark in cell.marks} for cell in CELLS) >= 200
    assert sum(not {"slow", "exhaustive"} & {mark.name for mark in cell.marks} for cell in CELLS) >= 90


def test_the_tables_of_the_page_are_what_the_cells_show() -> None:
    rows = [
        f"| {row.name} | `{row.reason}` | {f'`{row.code}`' if row.code else ''} | {row.sent} |"
        f" {'message' if row.code else 'message, answer'} |"
        for row in ROWS
    ]
    doors = [f"| {says.name} | {says.shows} | {says.again} |" for says in SAYS.values()]
    text = PAGE.read_text("utf-8")
    assert "\n".join(rows) in text
    assert "\n".join(doors) in text
