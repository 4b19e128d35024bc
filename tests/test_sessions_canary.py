"""Forty sessions on one agent with every plugin, all in flight together: nothing of one is ever seen in another.

Each session has a canary, a word that stands in everything its user could say or name. Every request is held back until
every session has one in flight; then all are let go, in an order of the seed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import re
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_skills
import deep_subagents
import deep_summarization
import deep_todo
import deep_uploads
import pytest
from deep_backends import local_backend, memory_backend
from deep_skills import SKILLS, backend_loader
from deep_subagents.slots import PAUSED
from deep_summarization import LAST_FAILURE, is_summary
from deep_todo import TODOS
from deep_uploads import UPLOADS, run_with_files
from deep_uploads.slot import IN_FLIGHT
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset, RunContext, ToolDenied
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.run import AgentRunResultEvent

from deep_core import DeepAgentDeps, Kernel, PromptSection, SkillLoader, ToolCall
from deep_core.agent.policy.approvals import APPROVALS
from deep_core.agent.policy.decisions import RUN
from tests.drawn import many
from tests.plugins_by_hand import plugin, scripted
from tests.stubs import Call

SESSIONS, THREADS = many(10, 40), 4
PATIENCE = 600
"""Seconds after which nobody comes any more: a bug of the test, or a session that hangs."""
ASKED = "Your text will replace it"
"""In every prompt for a summary, and nowhere else."""
CANARY = re.compile(r"kanari\d\d[a-z]{6}")
KINDS = ("approved", "denied", "child asks", "left waiting", "cancelled")
"""What becomes of a session's approval. Of each kind some stream, some work on the disk, some fail to sum up."""
CURRENT: ContextVar[int] = ContextVar("session")
"""Which session the running code belongs to, whatever its messages say."""


def canary(session: int) -> str:
    """The word of one session; made anew each time, so that no copy outlives its use here."""
    dice = random.Random(session)
    return f"kanari{session:02}" + "".join(dice.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6))


def canaries(text: str) -> set[int]:
    """The sessions whose word is in a text."""
    return {int(word[6:8]) for word in CANARY.findall(text)}


def kind_of(session: int) -> str:
    return KINDS[session % len(KINDS)]


def sums_up(session: int) -> bool:
    """Some sessions' summaries fail: their histories stay, and the failure is theirs alone."""
    return session % 8 != 3


@dataclass
class App:
    """The application's own object of a session."""

    word: str
    stamped: list[str] = field(default_factory=list[str])


# -- all in flight together ------------------------------------------------------------------------------------------


class Rendezvous:
    """Holds what comes until every session has somebody here; works across threads.

    Attributes:
        rounds: how many sessions were there each time.
    """

    def __init__(self, sessions: int, seed: int) -> None:
        self.rounds: list[int] = []
        self._active = set(range(sessions))
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._dice = random.Random(seed)
        self._lock = threading.Lock()

    def leave(self, session: int) -> None:
        with self._lock:
            self._active.discard(session)
            self._let_go()

    async def meet(self, session: int) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        mine = session, loop, future
        with self._lock:
            self._waiting.append(mine)
            self._let_go()
        try:
            await future
        finally:
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)

    def _let_go(self) -> None:
        here = {session for session, _, _ in self._waiting}
        if not here or not self._active <= here:
            return
        self.rounds.append(len(here))
        self._dice.shuffle(self._waiting)
        for _, loop, future in self._waiting:
            loop.call_soon_threadsafe(_wake, future)
        self._waiting = []


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():  # cancelled with its run
        future.set_result(None)


# -- the model -------------------------------------------------------------------------------------------------------


class Chorus:
    """A model that plays every session at once. What it says, it takes from the messages it is asked with.

    Attributes:
        seen: (session, sessions whose word was in the request, its kind) of every request.
        hanging: session -> set when its model hangs, for who wants to cancel it.
    """

    def __init__(self, rendezvous: Rendezvous) -> None:
        self.rendezvous = rendezvous
        self.seen: list[tuple[int, set[int], str]] = []
        self.hanging: dict[int, asyncio.Event] = {}

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, stream_function=self._stream, model_name="chorus")

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        session, request = CURRENT.get(), repr(messages) + repr(info)
        act, step = self._place(messages)
        self.seen.append((session, canaries(request), act))
        await self.rendezvous.meet(session)
        word = CANARY.findall(repr(messages))[-1]
        if act == "hang":
            self.hanging[session].set()
            await asyncio.Event().wait()
        if act == "sum up":
            return ModelResponse(parts=[TextPart(f"Summary: {word}.")] if sums_up(session) else [])
        steps = self._script(act, step, word)
        calls = steps[step] if step < len(steps) else []
        return ModelResponse(parts=[*calls] or [TextPart(f"{word} {act} done: {results(messages)}")])

    @staticmethod
    def _place(messages: list[ModelMessage]) -> tuple[str, int]:
        """What is being done, and how many answers were given to it: told by the last answer, or else the prompt."""
        since: list[Any] = []
        for message in reversed(messages):
            if isinstance(message, ModelResponse):
                calls = {call.tool_call_id for call in message.tool_calls}
                if any(part.part_kind == "tool-return" and part.tool_call_id in calls for part in since):
                    _, act, step, *_ = message.tool_calls[0].tool_call_id.split("/")
                    return act, int(step) + 1
                break
            since = [*message.parts, *since]
        said = " ".join(str(part.content) for part in since if isinstance(part, UserPromptPart))
        return ("sum up" if ASKED in said else re.findall(r"act=([a-z-]+)", said)[-1]), 0

    @staticmethod
    def _script(act: str, step: int, word: str) -> list[list[ToolCallPart]]:
        def call(tool: str, number: int = 0, **args: Any) -> ToolCallPart:
            return ToolCallPart(tool, args, tool_call_id=f"{word}/{act}/{step}/{tool}/{number}")

        skill = f"---\nname: {word}\ndescription: About {word}.\n---\nDo as {word} does.\n"
        todos = [{"content": f"{act} of {word} {n}", "status": "pending"} for n in range(2)]
        scripts: dict[str, list[list[ToolCallPart]]] = {
            "prepare": [
                [call("write_file", path=f".deep/skills/{word}/SKILL.md", content=skill), call("whoami")],
                [call("write_file", path=f"{word}.md", content=f"Notes of {word}\n" * 3)],
            ],
            "plan": [
                [call("write_todos", todos=todos), call("load_skill", skill_name=word)],
                [call("read_todos"), call("list_skills"), call("glob", pattern="**/*")],
                [call("grep", pattern=word), call("read_file", path=f"uploads/{word}.txt"), call("whoami")],
            ],
            "delegate": [
                [
                    call("task", 0, description=f"act=child 0 for {word}"),
                    call("task", 1, description=f"act=child {word}"),
                ],
                [call("task", 2, description=f"act=child of {word}", subagent_type=f"helper-{word}")],
                [call("read_todos"), call("fail", text=f"{word} went wrong")],
            ],
            "child": [[call("write_todos", todos=todos)], [call("read_todos"), call("ls", path=".")]],
            "ask": [[call("stamp", text=f"stamp of {word}")]],
            "ask-child": [[call("task", description=f"act=stamping for {word}")]],
            "stamping": [[call("write_todos", todos=todos)], [call("stamp", text=f"stamp of {word}")]],
            "look": [[call("edit_file", path=f"{word}.md", old_string="Notes", new_string=f"{word}", replace_all=True)]]
            + [[call("read_file", n, path=f"{word}.md"), call("whoami", n)] for n in range(4)],
        }
        return scripts.get(act, [])

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        response = await self._answer(messages, info)
        for index, part in enumerate(response.parts):
            if isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content
        if not response.parts:
            yield ""


def results(messages: list[ModelMessage]) -> str:
    """What the last tools returned."""
    return " | ".join(str(part.content)[:200] for part in messages[-1].parts if isinstance(part, ToolReturnPart))


# -- one agent -------------------------------------------------------------------------------------------------------


def probe(crossed: list[str]) -> object:
    """A plugin with what a session could meet another one in: tools, a live text, a check, an observer, a loader."""
    toolset = FunctionToolset[DeepAgentDeps[App]](id="probe")

    @toolset.tool
    def whoami(ctx: RunContext[DeepAgentDeps[App]]) -> str:
        """Tell whose session it is."""
        assert ctx.deps.app is not None
        return f"{ctx.deps.app.word} at depth {ctx.deps.depth}"

    @toolset.tool(requires_approval=True)
    def stamp(ctx: RunContext[DeepAgentDeps[App]], text: str) -> str:
        """Stamp."""
        assert ctx.deps.app is not None
        ctx.deps.app.stamped.append(text)
        return f"stamped {text}"

    @toolset.tool
    def fail(ctx: RunContext[DeepAgentDeps[App]], text: str) -> str:
        """Fail."""
        raise ValueError(text)

    def check(call: ToolCall) -> None:
        if not canaries(f"{call.call_id} {dict(call.args)}") <= {CURRENT.get()}:
            crossed.append(f"check_call of {CURRENT.get()}: {call}")

    def event(event: Any) -> None:
        if not canaries(repr(event)) <= {CURRENT.get()} or event.session_id != f"s{CURRENT.get()}":
            crossed.append(f"event of {CURRENT.get()}: {event}")

    def word(ctx: RunContext[DeepAgentDeps[App]]) -> str:
        assert ctx.deps.app is not None
        return f"Working for {ctx.deps.app.word}."

    def loaders(context: Any) -> list[SkillLoader]:
        return [backend_loader()]

    return plugin(
        "probe",
        toolsets=[toolset],
        check_call=check,
        run_event=event,
        sections=[PromptSection.live("word", word)],
        skill_loaders=loaders,
    )


PLUGINS: list[Any] = [
    deep_backends,
    deep_filesystem,
    deep_skills,
    deep_subagents,
    deep_summarization,
    deep_todo,
    deep_uploads,
]


class Stage:
    """One kernel, one agent, and everything that was seen. Nothing here holds a session."""

    def __init__(self, root: Path, *more: object, sessions: int = SESSIONS) -> None:
        self.root = root
        self.crossed: list[str] = []
        self.rendezvous = Rendezvous(sessions, seed=20261121)
        self.chorus = Chorus(self.rendezvous)
        self.kernel = Kernel(plugins=[*PLUGINS, probe(self.crossed), *more], discover=False)
        self.agent: Agent[Any, Any] = self.kernel.create_agent(
            self.chorus.model,
            backend="memory",
            summarization={"trigger": ["messages", 16], "keep": ["messages", 6]},
        )
        self.living: list[weakref.ref[Any]] = []
        self.compacted: list[int] = []

    async def session(self, session: int) -> None:
        """All of one session, and what it must be in the end."""
        CURRENT.set(session)
        try:
            user = User(self, session)
            await user.play()
            user.check()
        finally:
            self.rendezvous.leave(session)

    async def sessions(self, numbers: range) -> None:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for number in numbers:
                group.create_task(self.session(number))


class User:
    """Who uses one session."""

    def __init__(self, stage: Stage, session: int) -> None:
        self.stage, self.number, self.word = stage, session, canary(session)
        self.folder = stage.root / str(session)
        self.folder.mkdir()
        backend: Any = (memory_backend, lambda: local_backend(self.folder), lambda: None)[session % 3]()
        self.deps = DeepAgentDeps[App](backend=backend, session_id=f"s{session}", app=App(self.word))
        self.deps.state.bind(stage.kernel)
        self._prepare_subagent()
        self.history: list[ModelMessage] = []
        self.said: list[str] = []
        self.watch()

    def watch(self) -> None:
        self.stage.living += [weakref.ref(self.deps), weakref.ref(self.deps.app), weakref.ref(self)]

    def _prepare_subagent(self) -> None:
        # Not the agent's own name: Pydantic AI keeps the graphs of the last 128 names.
        helper: Agent[Any, Any] = Agent(self.stage.chorus.model, name="helper", description=f"Helps {self.word}.")
        self.deps.subagents[f"helper-{self.word}"] = helper

    async def play(self) -> None:
        await self.run("prepare")
        # Two ways to bring a file: by the session's method, and in one go with a run.
        data = f"line of {self.word}\n".encode()
        if self.number % 4:
            await self.deps.upload_file(f"{self.word}.txt", data, upload_dir="uploads")
        else:
            files = [(f"{self.word}.txt", data)]
            await run_with_files(self.stage.agent, self.prompt("hello"), self.deps, files, upload_dir="uploads")
        await self.run("plan")
        if kind_of(self.number) == "cancelled":
            await self.cancelled()
        await self.run("delegate")
        await self.approval()
        await self.run("look")

    def prompt(self, act: str) -> str:
        return f"I am {self.word}, please do act={act}"

    async def run(self, act: str | None, **how: Any) -> Any:
        """One run, in one of three ways."""
        prompt = self.prompt(act) if act else None
        how |= {"deps": self.deps, "message_history": self.history}
        result: Any = None
        if self.number % 3 == 0:
            result = await self.stage.agent.run(prompt, **how)
        elif self.number % 3 == 1:
            async with self.stage.agent.run_stream_events(prompt, **how) as events:
                async for event in events:
                    if isinstance(event, AgentRunResultEvent):
                        result = event.result
        else:
            async with self.stage.agent.iter(prompt, **how) as running:
                async for _ in running:
                    pass
            result = running.result
        self.history = result.all_messages()
        self.said += [repr(result.output), repr(result.usage)]
        if self.history and any(map(is_summary, self.history[0].parts)):
            self.stage.compacted.append(self.number)
        return result

    async def cancelled(self) -> None:
        hangs = self.stage.chorus.hanging[self.number] = asyncio.Event()
        prompt = self.prompt("hang")
        running = asyncio.create_task(self.stage.agent.run(prompt, deps=self.deps, message_history=self.history))
        await hangs.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert self.deps.state[RUN].policy is None

    async def approval(self) -> None:
        kind = kind_of(self.number)
        asked = await self.run("ask-child" if kind == "child asks" else "ask")
        requests = asked.output
        assert isinstance(requests, DeferredToolRequests), requests
        assert canaries(repr(requests)) == {self.number}
        assert len(self.deps.state[PAUSED]) == (kind == "child asks")
        if kind == "left waiting":
            self.history = asked.all_messages()[:-1]
            return
        answers: Any = requests.build_results(approve_all=True)
        if kind == "denied":
            reason = ToolDenied(f"{self.word} says no")
            answers = requests.build_results(approvals={call.tool_call_id: reason for call in requests.approvals})
        if kind == "child asks":
            self.store_and_load()
        result = await self.run(None, deferred_tool_results=answers)
        assert ("says no" in result.output) == (kind == "denied")
        if kind == "denied":
            assert self.deps.app is not None
            assert self.deps.app.stamped == []

    def store_and_load(self) -> None:
        """Go on with a session that was stored; the agents that were prepared are code, and given again."""
        backend, app = self.deps.backend, self.deps.app
        self.deps = self.stage.kernel.load_deps(self.deps.dump(), backend=backend, app=app)
        self._prepare_subagent()
        self.watch()

    # -- in the end --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        own, state, kind = {self.number}, self.deps.state, kind_of(self.number)
        assert canaries(self.deps.dump()) == own
        assert canaries(repr({name: state[name] for name in state.names()})) == own
        assert canaries(ModelMessagesTypeAdapter.dump_json(self.history).decode()) == own
        assert canaries(repr(self.history)) == own
        assert canaries("".join(self.said)) <= own
        assert [todo.content for todo in state[TODOS]] == [f"plan of {self.word} {n}" for n in range(2)]
        assert {Path(path).name for path in state[UPLOADS]} == {f"{self.word}.txt"}
        assert set(state[SKILLS]) == {self.word}
        assert (state[RUN].policy, state[IN_FLIGHT].files, state[IN_FLIGHT].size) == (None, 0, 0)
        assert state[PAUSED] == {}
        assert all(question.call_id.startswith(self.word) for question in state[APPROVALS])
        assert len(state[APPROVALS]) == (kind == "left waiting")  # every other question was answered, once
        assert bool(state[LAST_FAILURE].reason) == (not sums_up(self.number))
        assert self.deps.app is not None
        stamps = {"approved": 1, "child asks": 1, "cancelled": 1, "denied": 0, "left waiting": 0}
        assert self.deps.app.stamped == [f"stamp of {self.word}"] * stamps[kind]
        files = self.files()
        assert files[f"uploads/{self.word}.txt"] == f"line of {self.word}\n".encode()
        assert canaries(" ".join(files)) | canaries(repr([*files.values()])) == own
        assert any("-messages-" in name for name in files) == sums_up(self.number)

    def files(self) -> dict[str, bytes]:
        """Everything in the session's workspace."""
        backend: Any = self.deps.backend
        if self.number % 3 == 1:
            paths = [path for path in self.folder.rglob("*") if path.is_file()]
            return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in paths}
        return {path.removeprefix("/workspace/"): data for path, data in backend.snapshot().items()}


# -- what stays ------------------------------------------------------------------------------------------------------


def holders() -> Iterator[str]:
    """Whatever in this process still refers to a text with a canary in it."""
    gc.unfreeze()  # what was there before the tests may refer to one too
    for found in gc.get_objects():
        inside = [found]
        while inside:
            for referent in gc.get_referents(inside.pop()):
                kind = type(referent)  # of millions: `isinstance` would ask each for its class
                if issubclass(kind, (str, bytes)):
                    text = str(referent, "latin-1") if issubclass(kind, bytes) else str(referent)
                    if CANARY.search(text):
                        holder = getattr(found, "__wrapped__", found)
                        yield f"{type(found)} {str(holder)[:300]} -> {text[:100]}"
                elif issubclass(kind, (dict, tuple)) and not gc.is_tracked(referent):
                    inside.append(referent)


def crossings(stage: Stage) -> list[tuple[int, set[int], str]]:
    """Requests that say anything of another session, or nothing of their own."""
    return [(session, found, act) for session, found, act in stage.chorus.seen if found != {session}]


def check_all(stage: Stage) -> None:
    """What every request said, and that nothing is left of anybody."""
    assert stage.crossed == []
    assert crossings(stage) == []
    acts = Counter(act for _, _, act in stage.chorus.seen)
    assert acts.keys() >= {"prepare", "plan", "delegate", "child", "ask", "stamping", "hang", "sum up"}
    assert set(stage.compacted) == {n for n in range(SESSIONS) if sums_up(n)}
    assert stage.rendezvous.rounds.count(SESSIONS) > 20
    assert {incident.plugin for incident in stage.kernel.incidents} == {"probe", "summarization"}
    # What the last incidents say is kept on purpose; what they keep alive is another test.
    stage.kernel.latest.clear()
    re.purge()  # the patterns that sessions searched with: the standard library's cache, of 512
    gc.collect()
    assert [ref() for ref in stage.living if ref() is not None] == []
    left = list(holders())
    assert left == [], "\n".join(left[:20])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directories for the sessions, beside an empty working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    logging.disable()  # pytest keeps log records, and those keep what was logged
    yield tmp_path
    logging.disable(logging.NOTSET)


@pytest.mark.slow
def test_on_one_event_loop(root: Path) -> None:
    stage = Stage(root)
    asyncio.run(stage.sessions(range(SESSIONS)))
    check_all(stage)


@pytest.mark.exhaustive
def test_on_four_threads_with_a_loop_each(root: Path) -> None:
    stage = Stage(root)

    def serve(thread: int) -> None:
        asyncio.run(stage.sessions(range(thread, SESSIONS, THREADS)))

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(serve, thread) for thread in range(THREADS)]:
            done.result()
    check_all(stage)


@pytest.mark.slow
def test_a_plugin_that_remembers_a_session_would_be_seen(root: Path) -> None:
    """The checks above can fail."""
    words: list[str] = []

    def gossip(ctx: RunContext[Any]) -> str:
        words.append(ctx.deps.app.word)
        return f"Last time it was {words[-2:][0]}."

    stage = Stage(root, plugin("gossip", sections=[PromptSection.live("gossip", gossip)]), sessions=4)
    with pytest.raises(ExceptionGroup):
        asyncio.run(stage.sessions(range(4)))
    assert crossings(stage) != []
    assert any(word in holder for holder in holders() for word in words)


@pytest.mark.slow
def test_an_incident_keeps_no_session_alive(root: Path) -> None:
    """What went wrong is kept to be read; the session that it went wrong in is not."""
    kernel = Kernel(plugins=[deep_backends, probe([])], discover=False)
    agent = kernel.create_agent(scripted(Call("fail", {"text": "it went wrong"})))

    def session() -> list[weakref.ref[Any]]:
        CURRENT.set(0)
        deps = DeepAgentDeps[App](session_id="s0", app=App("anybody"))
        asyncio.run(agent.run("go", deps=deps))
        return [weakref.ref(deps), weakref.ref(deps.app)]

    living = session()
    gc.collect()
    assert "ValueError: it went wrong" in str(kernel.incidents[0])
    assert [ref() for ref in living] == [None, None]
