"""Many turns with every plugin at the providers' wires: each request continues the last, unless it was compacted.

Real models against local stubs, a real directory, a real second process. Todos, uploads, skills and AGENTS.md change
every few turns, subagents work, commands are approved, and every other turn is streamed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deep_backends
import deep_filesystem
import deep_folders
import deep_skills
import deep_subagents
import deep_summarization
import deep_todo
import deep_uploads
import pytest
from deep_backends import local_backend
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from deep_core import DeepAgentDeps, Kernel
from tests import another_process
from tests.drawn import many, sample
from tests.environments import REPOSITORY
from tests.stubs import Call, RequestView, Script, Turn
from tests.stubs.wire import wire_prefix
from tests.test_wire import PROVIDERS, both, ignore

one_of_both = pytest.mark.parametrize("provider", sample(PROVIDERS, "anthropic"))
TURNS = many(25, 50)
PLUGINS: list[Any] = [
    deep_backends,
    deep_filesystem,
    deep_folders,
    deep_skills,
    deep_subagents,
    deep_summarization,
    deep_todo,
    deep_uploads,
]
ASKED = "Your text will replace it"
"""In every prompt for a summary, and nowhere else."""
MOVING = ("folders.instructions", "skills.catalog", "todo.state", "uploads.files")
"""The live sections whose texts change."""
SMALL = {"max_input_tokens": many(5_000, 9_000)}
"""A window that fifty turns overflow several times, at the default trigger and keep."""


# -- the conversation ------------------------------------------------------------------------------------------------


def answer(view: RequestView) -> Any:
    """What the model says, told by its messages alone: so it also plays on in another process."""
    if ASKED in view.prompt:
        return "They went through many turns, and all is well."
    for index in range(len(view.messages) - 1, -1, -1):
        message = view.messages[index]
        if message.role == "assistant":
            if message.calls and any(later.role == "tool" for later in view.messages[index + 1 :]):
                who, step, _ = str(message.calls[0].id).split("_")
                return said(who, int(step) + 1)
            break
    prompts = [message.text for message in view.messages if message.role == "user"]
    return said(re.findall(r"(?:turn|child)-\d+", " ".join(prompts))[-1], 0)


def said(who: str, step: int) -> Any:
    """The answer number `step` in a turn (or of its subagent)."""
    steps = [calls for calls in script(who) if calls]
    if step >= len(steps):
        return f"{who} is done. " + "This is how it went. " * 12
    return Turn(calls=tuple(Call(tool, args, f"{who}_{step}_{n}") for n, (tool, args) in enumerate(steps[step])))


def script(who: str) -> list[list[tuple[str, dict[str, Any]]]]:
    turn = int(who.split("-")[1])
    if who.startswith("child"):
        return [[("write_todos", {"todos": [{"content": "Look", "status": "pending"}]})], [("ls", {"path": "."})]]
    statuses = ("pending", "in_progress", "completed")
    todos = [{"content": f"Step {n}", "status": statuses[(n + turn) % 3]} for n in range(turn % 5)]
    note = {"path": f"note-{turn}.md", "content": f"Notes of turn {turn}\n" * 5}
    return [
        [("write_todos", {"todos": todos})] if turn % 3 == 0 else [],
        [("load_skill", {"skill_name": f"skill-{turn - 1}"}), ("list_skills", {})] if turn % 5 == 3 else [],
        [("write_file", note), ("read_file", {"path": f"uploads/data-{turn - 1}.txt"})] if turn % 4 == 2 else [],
        [("task", {"description": f"child-{turn}: look around"})] if turn % 7 == 4 else [],
        [("execute", {"command": "echo hello"}), ("read_todos", {})] if turn % 9 == 6 else [],
        [("grep", {"pattern": "("}), ("edit_file", {"path": "no such file"})] if turn % 11 == 8 else [],
    ]


async def converse(
    agent: Agent[Any, Any],
    deps: DeepAgentDeps[Any],
    turns: range,
    history: list[ModelMessage] | None = None,
) -> list[ModelMessage]:
    """So many turns in the working directory, every other one streamed; whatever asks is approved."""
    for turn in turns:
        how: dict[str, Any] = {"deps": deps, "event_stream_handler": ignore if turn % 2 else None}
        if turn % 4 == 1:
            data = f"line of {turn}\n".encode() * turn
            await deps.upload_file(f"data-{turn}.txt", data, upload_dir="uploads")
        if turn % 5 == 2:
            write_skill(turn)
        if turn % 3 == 1:
            Path("AGENTS.md").write_text(f"As of turn {turn}: be brief.\n")
        if turn % 10 == 9:
            shutil.rmtree(f".deep/skills/skill-{turn - 7}")
        result = await agent.run(f"turn-{turn}: go on", message_history=history, **how)
        while isinstance(result.output, DeferredToolRequests):
            answers = result.output.build_results(approve_all=True)
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers, **how)
        history = result.all_messages()
    return history or []


def write_skill(turn: int) -> None:
    folder = Path(f".deep/skills/skill-{turn}")
    folder.mkdir(parents=True)
    text = f"---\nname: skill-{turn}\ndescription: How turn {turn} is done.\n---\nDo it, as in turn {turn}.\n"
    (folder / "SKILL.md").write_text(text)


def kernel_of(plugins: list[Any]) -> Kernel:
    return Kernel(plugins=plugins, discover=False, strict=True)


def session(kernel: Kernel) -> DeepAgentDeps[Any]:
    deps = DeepAgentDeps[Any](backend=local_backend("."))
    deps.state.bind(kernel)
    return deps


# -- what was sent ---------------------------------------------------------------------------------------------------


class Sent:
    """The requests that a stub got, told apart: the conversation's, the subagents', and those for a summary.

    Attributes:
        main: the conversation's.
        children: those of each subagent.
        compacted: the requests of `main`, by number, that a summary came before.
    """

    def __init__(self, requests: list[dict[str, Any]]) -> None:
        self.main: list[dict[str, Any]] = []
        self.children: dict[str, list[dict[str, Any]]] = {}
        self.compacted: set[int] = set()
        for body in requests:
            first = json.dumps(next(m["content"] for m in body["messages"] if m["role"] == "user"))
            if ASKED in json.dumps(body["messages"]):
                self.compacted.add(len(self.main))
            elif child := re.search(r"child-\d+: look around", first):
                self.children.setdefault(child[0], []).append(body)
            else:
                self.main.append(body)

    def breaks(self) -> dict[int, Any]:
        """Requests of the conversation that do not continue the one before, and where they differ."""
        pairs = enumerate(pairwise(self.main), 1)
        return {number: diff for number, (before, after) in pairs if (diff := wire_prefix(before, after))}

    @staticmethod
    def head(body: dict[str, Any]) -> list[Any]:
        """What stands before the conversation: a field at Anthropic, messages at OpenAI."""
        first = next(n for n, message in enumerate(body["messages"]) if message["role"] == "user")
        return [_plain(body.get("system", "")), *body["messages"][:first]]

    def check(self) -> None:
        """The property, of the conversation and of each subagent."""
        assert {number: str(diff) for number, diff in self.breaks().items() if number not in self.compacted} == {}
        assert set(self.breaks()) == self.compacted
        assert len({json.dumps(body["tools"]) for body in self.main}) == 1
        # What stands before the conversation stays where that is compacted.
        assert all(diff.path.startswith("messages[") for diff in self.breaks().values())
        assert len({json.dumps(self.head(body)) for body in self.main}) == 1
        for bodies in self.children.values():
            assert len(bodies) == 3
            assert all(wire_prefix(before, after) is None for before, after in pairwise(bodies))


def _plain(system: Any) -> str:
    return system if isinstance(system, str) else "".join(block["text"] for block in system)


def tells(body: dict[str, Any], section: str) -> int:
    """How often a live section was said in a request."""
    return json.dumps(body["messages"]).count(f'<context id=\\"{section}\\"')


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The session's directory, which is the working directory."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def play(provider: str, **how: Any) -> Sent:
    """All turns at a stub."""
    make_stub, make_model = PROVIDERS[provider]
    with make_stub(Script(then=answer)) as stub, kernel_of(PLUGINS) as kernel:
        agent = kernel.create_agent(make_model(stub), instructions="Be careful.", **how)
        asyncio.run(converse(agent, session(kernel), range(TURNS)))
    assert (stub.strays, set(stub.statuses), stub.player.errors) == ([], {200}, [])
    assert {bool(body.get("stream")) for body in stub.requests} == {True, False}
    return Sent(stub.requests)


@pytest.mark.slow
@both
def test_every_request_continues_the_one_before(here: Path, provider: str) -> None:
    sent = play(provider)
    assert sent.compacted == set()
    sent.check()
    assert len(sent.main) > 2 * TURNS
    assert len(sent.children) == len([turn for turn in range(TURNS) if turn % 7 == 4])
    # All of it moved: otherwise nothing was shown.
    changes = {section: tells(sent.main[-1], section) for section in MOVING}
    assert min(changes.values()) > TURNS / 5, changes


@pytest.mark.slow
@one_of_both
def test_where_it_is_compacted_and_nowhere_else_it_begins_anew(here: Path, provider: str) -> None:
    sent = play(provider, summarization=SMALL)
    assert 2 <= len(sent.compacted) <= 8
    sent.check()
    for number in sent.compacted:
        before, after = sent.main[number - 1], sent.main[number]
        assert len(json.dumps(after)) < len(json.dumps(before)) * 0.75
        # What went with the beginning of the conversation is told again.
        assert min(tells(after, section) for section in MOVING) >= 1


# -- another process, another order ----------------------------------------------------------------------------------

ELSEWHERE = """
import sys
from tests.test_prefix_stability import elsewhere
elsewhere(sys.stdin.read())
"""


def elsewhere(stored: str) -> None:
    """The second half, in another process."""
    given = json.loads(stored)
    with kernel_of(PLUGINS) as kernel:
        agent = kernel.create_agent(PROVIDERS[given["provider"]][1](SimpleNamespace(base_url=given["url"])))
        deps = kernel.load_deps(given["deps"], backend=local_backend("."))
        history = ModelMessagesTypeAdapter.validate_json(given["history"])
        asyncio.run(converse(agent, deps, range(*given["turns"]), history))


@pytest.mark.slow
@one_of_both
def test_a_stored_session_continues_in_another_process(here: Path, provider: str) -> None:
    make_stub, make_model = PROVIDERS[provider]
    with make_stub(Script(then=answer)) as stub, kernel_of(PLUGINS) as kernel:
        deps = session(kernel)
        agent = kernel.create_agent(make_model(stub))
        history = asyncio.run(converse(agent, deps, range(12)))
        half = len(stub.requests)
        stored = {"provider": provider, "url": stub.base_url, "turns": [12, 20]}
        stored |= {"deps": deps.dump(), "history": ModelMessagesTypeAdapter.dump_json(history).decode()}
        path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        done = another_process.run(ELSEWHERE, stdin=json.dumps(stored), env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    sent = Sent(stub.requests)
    assert len(stub.requests) > half + 8
    assert "turn-19" in json.dumps(sent.main[-1])
    sent.check()


PERMUTED = """
import sys
from tests.test_prefix_stability import permuted
print("\\n".join(sorted(permuted(int(sys.argv[1]) if sys.argv[1:] else 2))))
"""


def permuted(seed: int, orders: int = 3) -> set[str]:
    """What is sent in five turns, with the plugins given in so many orders: every different set of bodies."""
    dice, found = random.Random(seed), set[str]()
    for _ in range(orders):
        for left in Path().iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        make_stub, make_model = PROVIDERS["openai"]
        with make_stub(Script(then=answer)) as stub, kernel_of(dice.sample(PLUGINS, len(PLUGINS))) as kernel:
            agent = kernel.create_agent(make_model(stub))
            asyncio.run(converse(agent, session(kernel), range(5)))
        found.add(json.dumps([body.decode() for body in stub.bodies]))
    return found


@pytest.mark.exhaustive
def test_the_order_of_the_plugins_and_of_hashes_decides_nothing(here: Path) -> None:
    found = permuted(1)
    assert len(found) == 1
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", PERMUTED], capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == found
