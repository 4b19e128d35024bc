"""What is measured: deep's own agent, a named configuration, or any agent of a module, run on one task."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from tool_expressions import DEFAULT_TAG, ToolFacts

from deep_core import ConfigError, Kernel, create_default_deps, hookimpl
from deep_core.plugin_api import DeepCapability, as_expression

from .errors import AgentNotFound, TrialsError
from .isolation import isolates
from .tapes import Player, Recorder
from .tasks import TaskFile

if TYPE_CHECKING:
    from deep_sessions import AgentError, DeepAgent, RunResult, SessionStore
    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.tools import DeferredToolResults, Tool
    from pydantic_ai.usage import RunUsage
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import AgentConfig

    from .servers import Talk

__all__ = ["Finished", "Place", "Subject", "find_subject", "run_subject"]

DENIED = "Nobody is here to approve this call. Go on without it."
MAX_ROUNDS = 100


@dataclass(frozen=True)
class Place:
    """Where and how a trial runs.

    Attributes:
        workspace: its files; the current directory.
        store: the URL of the store that has its session once it has ended. Until then it is in the memory of this
            process, where no command of the agent reaches what is counted.
        session: the id of its session.
        instruction: the prompt.
        file: limits and policy.
        model: the model's id; None takes the agent's own.
        config: a configuration, for deep's own agent.
        disable: plugins that are left out.
        hide: a tool expression: tools that are not offered; None for none.
        usd: US dollars that are left of the budget; None without one.
        seconds: its time.
        tape: what records the models' answers, or plays recorded ones.
        functions: the only tools that are offered; the first calls of them end the run, if nothing runs them.
        talk: what runs the functions.
        turns: what the user says after the instruction, one after the other.
    """

    workspace: Path
    store: str
    session: str
    instruction: str
    file: TaskFile
    model: str | None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    disable: Sequence[str] = ()
    hide: str | None = None
    usd: float | None = None
    seconds: float = 600.0
    tape: Recorder | Player | None = None
    functions: Sequence[Mapping[str, Any]] = ()
    talk: Talk | None = None
    turns: Sequence[str] = ()

    @property
    def ends_with_calls(self) -> bool:
        """Whether nobody answers the calls of functions."""
        return bool(self.functions) and self.talk is None


@dataclass(frozen=True)
class Finished:
    """How a run ended.

    Attributes:
        answer: the agent's last words, of each turn.
        error: what ended it early.
        usage: of the run, subagents included.
        messages: the conversation.
        explained: tokens of prompt and tools in one request, by plugin; empty for agents that are not of deep.
        contributing: the plugins that contribute anything to the agent.
    """

    answer: str
    error: AgentError | None
    usage: RunUsage
    messages: Sequence[ModelMessage]
    explained: Mapping[str, int] = field(default_factory=dict[str, int])
    contributing: Sequence[str] = ()


class Subject(Protocol):
    """Runs a task, in the current directory."""

    async def __call__(self, place: Place, heard: Callable[[int, int], None]) -> Finished:
        """Run it. `heard` takes the tokens in and out of each answer."""
        ...


def find_subject(name: str, folder: str | None = None) -> object | None:
    """Return the object of `module:attribute` or `file.py:attribute`; None for deep's own agent.

    Args:
        name: the name.
        folder: in which `deep eval` was typed: its modules and files are found.

    Raises:
        AgentNotFound: there is no such module, file or attribute.
    """
    if ":" not in name:
        return None
    from deep_sessions import find_object

    try:
        return find_object(name, folder)
    except ConfigError as error:
        raise AgentNotFound(str(error)) from error


async def run_subject(subject: object | None, place: Place, heard: Callable[[int, int], None]) -> Finished:
    """Run what `find_subject` returned on a task.

    Raises:
        AgentNotFound: it is no agent, and makes none.
    """
    from deep_sessions import DeepAgent, MemoryStore
    from pydantic_ai import Agent

    if subject is None:
        return await _run_own(place, heard)
    if callable(subject) and not isinstance(subject, Agent | DeepAgent):
        makes: Callable[..., Any] = subject
        made: Any = makes(place) if inspect.signature(makes).parameters else makes()
        subject = await cast("Awaitable[object]", made) if inspect.isawaitable(made) else cast("object", made)
    if isinstance(subject, DeepAgent):
        if place.functions:
            raise AgentNotFound("--agent: a DeepAgent has its tools already; name a function that makes one, or deep")
        agent = subject.with_store(MemoryStore())  # its own may be a file, which its commands could edit
        try:
            with _taped(agent.runner.agent, place):
                results = await _played(agent, place)
            return await _finished(agent, place, results)
        finally:
            await agent.close()
    if isinstance(subject, Agent):
        return await _run_plain(cast("Agent[Any, Any]", subject), place)
    raise AgentNotFound(f"--agent: {type(subject).__name__} is no pydantic_ai.Agent, no DeepAgent, and makes none")


class Listener:
    """A plugin that hears each answer, and tapes the agent's models."""

    def __init__(self, heard: Callable[[int, int], None], place: Place) -> None:
        self._heard, self._tape = heard, place.tape
        self._models: dict[str, Model[Any]] = {}
        self.kernel: Kernel | None = None

    @hookimpl(tryfirst=True)
    def deep_resolve_model(self, model_id: str, config: AgentConfig | None) -> Model[Any] | None:
        """Tape each model that is named anywhere: also of subagents, and of what falls back or sums up."""
        if self._tape is None or self.kernel is None:
            return None
        if model_id not in self._models:
            made = None if isinstance(self._tape, Player) else self._real(self.kernel, model_id, config)
            self._models[model_id] = taped(model_id, made, self._tape)
        return self._models[model_id]

    def _real(self, kernel: Kernel, model_id: str, config: AgentConfig | None) -> Model[Any]:
        from pydantic_ai.models import infer_model

        others = [plugin for plugin in kernel.active if plugin != "listener"]
        found = kernel.caller.first("deep_resolve_model", {"model_id": model_id, "config": config}, among=others)
        return found or (config and config.model.served(model_id)) or infer_model(model_id)

    @hookimpl(tryfirst=True)
    def deep_capabilities(self, context: object) -> list[AbstractCapability[Any]]:
        """Note which plugin wrote which part of a request."""
        if self._tape is None:
            return []
        from .taped_models import Attribution

        return [Attribution(self._tape.cleaner)]

    @hookimpl
    def deep_run_event(self, event: object, context: object) -> None:
        """Pass the tokens on."""
        from deep_core import RequestEvent

        if isinstance(event, RequestEvent):
            self._heard(event.input_tokens, event.output_tokens)


async def _run_own(place: Place, heard: Callable[[int, int], None]) -> Finished:
    from deep_sessions import AgentDeps, DeepAgent

    config = dict(place.config)
    config["agent"] = _limited(cast("Mapping[str, Any]", config.get("agent", {})), place)
    if place.functions:
        config["plugins"] = _yielding(config, place)
    listener = Listener(heard, place)
    kernel = Kernel(
        plugins=[listener],
        read_config=False,
        config=config,
        disable=place.disable,
        data_dir=place.workspace.parent,
    )
    listener.kernel = kernel
    try:
        deps = AgentDeps(model=place.model, session_store="memory:", runtime=backend_of(place), kernel=kernel)
        agent = await DeepAgent.create(deps=deps, tools=tools_of(place))
        try:
            return await _finished(agent, place, await _played(agent, place))
        finally:
            await agent.close()
    finally:
        await kernel.aclose()


def _yielding(config: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the tables of plugins so that none has a tool with the name of a function."""
    names = " | ".join(f"name:{each['name']}" for each in place.functions)
    with Kernel(read_config=False, config=config, disable=place.disable) as kernel:
        active = kernel.active
    plugins: dict[str, Any] = dict(config.get("plugins", {}))
    for each in active:
        own: Mapping[str, Any] = plugins.get(each, {})
        kept = f"({own['tools']}) & " if own.get("tools") else ""
        plugins[each] = {**own, "tools": f"{kept}~({names})"}
    return plugins


def _limited(given: Mapping[str, Any], place: Place) -> dict[str, Any]:
    deep = place.file.deep
    run: dict[str, Any] = {"requests": deep.requests}
    if deep.tokens is not None:
        run["tokens"] = deep.tokens
    if (usd := min((each for each in (deep.usd, place.usd) if each is not None), default=None)) is not None:
        run["usd"] = usd
    loop = {**given.get("loop", {}), "max_run_duration_ms": max(1000, round(place.seconds * 1000))}
    filters = [given.get("tool_filter"), None if deep.network else _LOCAL, place.hide and f"~({place.hide})"]
    if place.functions:
        filters = [" | ".join(f"name:{each['name']}" for each in place.functions)]
    agent = {**given, "limits": {**given.get("limits", {}), "run": run}, "loop": loop}
    if written := [f"({each})" for each in filters if each]:
        agent["tool_filter"] = " & ".join(written)
    return agent


_LOCAL = "~network | execute"


def backend_of(place: Place) -> WorkspaceBackend:
    """Return the backend of a task: of the place's workspace.

    Raises:
        TrialsError: the task asks for a sandbox, and none works here.
    """
    from deep_backends import local_backend, memory_backend, sandbox_backend

    kind = place.file.deep.backend
    if kind == "memory":
        return memory_backend()
    # Asked here, inside the trial: bubblewrap in bubblewrap does not work for root, whose /proc it covers in part.
    if kind == "sandbox" or (kind == "auto" and place.file.deep.approve is not None):
        if isolates() is not None:
            return sandbox_backend(place.workspace)
        if kind == "sandbox":
            raise TrialsError("the task asks for a sandbox, and bubblewrap does not work inside a trial here")
    return local_backend(place.workspace)


def taped(model_id: str, model: Model[Any] | None, tape: Recorder | Player) -> Model[Any]:
    """Return a model that plays a tape, or records what `model` answers."""
    from .taped_models import PlayedModel, RecordedModel

    if isinstance(tape, Player):
        return PlayedModel(model_id, tape)
    if model is None:
        raise AgentNotFound("--agent: an agent without a model of its own is recorded with -m MODEL")
    return RecordedModel(model_id, model, tape)


def _taped(agent: Agent[Any, Any], place: Place) -> AbstractContextManager[None]:
    """Tape the model of an agent that was made elsewhere."""
    if place.tape is None:
        return nullcontext()
    from pydantic_ai.models import Model, infer_model

    given = agent.model if place.model is None else resolve_model(place.model)
    name = given.model_id if isinstance(given, Model) else str(given)
    made = None if isinstance(place.tape, Player) or given is None else infer_model(given)
    return agent.override(model=taped(name, made, place.tape))


async def _played(agent: DeepAgent, place: Place) -> Sequence[RunResult]:
    """Run a task, and keep its sessions."""
    try:
        return [each async for each in _turns(agent, place)]
    finally:
        await _keep(agent.store, place.store)


async def _turns(agent: DeepAgent, place: Place) -> AsyncGenerator[RunResult]:
    """Run a task, turn by turn, and decide about its calls."""
    for said in (place.instruction, *place.turns):
        result = await agent.run(said, session_id=place.session)
        for _ in range(MAX_ROUNDS):
            if result.requests is None or place.ends_with_calls:
                break
            await agent.decide(place.session, _decisions(result.requests, place.file, agent.get_tools()))
            result = await agent.resume(place.session)
        yield result
        if result.error is not None:
            return


async def _finished(agent: DeepAgent, place: Place, results: Sequence[RunResult]) -> Finished:
    from deep_sessions import load_session

    messages = (await load_session(agent.store, place.session)).messages()
    explained, contributing = _explain(agent.runner.agent)
    usage = results[0].usage
    for result in results[1:]:
        usage = usage + result.usage
    answer = "\n\n".join(result.message or "" for result in results)
    return Finished(answer, results[-1].error, usage, messages, explained, contributing)


async def _keep(store: SessionStore, url: str) -> None:
    """Copy all sessions to where people open them. Nothing is counted there."""
    from deep_sessions import Commit, open_store

    kept = open_store(url)
    try:
        for info in await store.list(limit=sys.maxsize):
            lease = await kept.acquire(info.id)
            entries = await store.entries(info.id, limit=sys.maxsize)
            await kept.commit(lease, Commit(entries, (await store.load(info.id)).ledger, status=info.status))
            await kept.release(lease)
    finally:
        await kept.aclose()


async def _run_plain(agent: Agent[Any, Any], place: Place) -> Finished:
    from deep_sessions import as_agent_error
    from pydantic_ai import DeferredToolRequests, FunctionToolset, capture_run_messages
    from pydantic_ai.usage import RunUsage, UsageLimits

    deep = place.file.deep
    usage = RunUsage()
    how: dict[str, Any] = {
        "usage": usage,
        "usage_limits": UsageLimits(request_limit=deep.requests, total_tokens_limit=deep.tokens),
        "model": None if place.model is None else resolve_model(place.model),
    }
    if place.functions:
        how["toolsets"] = [FunctionToolset(tools_of(place), id="functions")]
    if place.ends_with_calls:
        how["output_type"] = [str, DeferredToolRequests]
    explained, contributing = {}, ()
    if _is_deep(agent):
        how["deps"] = create_default_deps(backend=backend_of(place))
        explained, contributing = _explain(agent)
    with capture_run_messages() as messages, _taped(agent, place):
        try:
            history: Sequence[ModelMessage] = ()
            answers: list[str] = []
            for turn in (place.instruction, *place.turns):
                result = await agent.run(turn, message_history=history, **how)
                for _ in range(MAX_ROUNDS):
                    if place.ends_with_calls or not isinstance(result.output, DeferredToolRequests):
                        break
                    how_on = {"deferred_tool_results": _decisions(result.output, place.file, ()), **how}
                    result = await agent.run(message_history=result.all_messages(), **how_on)
                answers.append(str(result.output))
                history = result.all_messages()
        except Exception as error:  # noqa: BLE001 - whatever an agent raises ends its run
            return Finished("", as_agent_error(error), usage, [*messages], explained, contributing)
    return Finished("\n\n".join(answers), None, usage, history, explained, contributing)


def resolve_model(model_id: str) -> Model | str:
    """Return the model of an id, for an agent that is not of deep."""
    if not model_id.startswith("trials:"):
        return model_id
    from .scripted import scripted_model

    return scripted_model(model_id)


def tools_of(place: Place) -> list[Tool[Any]]:
    """Return the functions as tools that the server runs; or, without one, that nobody runs: a call ends the run."""
    from pydantic_ai import Tool
    from pydantic_ai.exceptions import CallDeferred

    one = asyncio.Lock()  # calls are played again in the order of the conversation

    def runs(name: str) -> Callable[..., Awaitable[str]]:
        async def offered(**arguments: object) -> str:
            if place.talk is None:
                raise CallDeferred
            async with one:
                return await asyncio.to_thread(place.talk.call, name, arguments)

        return offered

    tools: list[Tool[Any]] = []
    for each in place.functions:
        name: str = each["name"]
        tool = Tool[Any].from_schema(runs(name), name, each["description"], dict(each["parameters"]))
        tool.metadata = {"tags": ["read"]}
        tools.append(tool)
    return tools


def _is_deep(agent: Agent[Any, Any]) -> bool:
    leaves: list[object] = []
    agent.root_capability.apply(leaves.append)
    return any(isinstance(leaf, DeepCapability) for leaf in leaves)


def _explain(agent: Agent[Any, Any]) -> tuple[dict[str, int], tuple[str, ...]]:
    from deep_core import explain

    found = explain(agent)
    others = (*found.history_processors, *found.capabilities, *found.contributions)
    plugins = {*found.by_plugin(), *(str(each["plugin"]) for each in others)}
    return found.by_plugin(), tuple(sorted(plugins - {"app", "None", "", "listener"}))


def _decisions(requests: DeferredToolRequests, file: TaskFile, tools: Sequence[Any]) -> DeferredToolResults:
    """Approve the calls that the task approves; deny all others."""
    from pydantic_ai.tools import DeferredToolResults, ToolDenied

    facts = {tool.name: ToolFacts(tool.name, tool.name, tool.plugin, tuple(tool.tags)) for tool in tools}
    approved = None if file.deep.approve is None else as_expression(file.deep.approve)
    results = DeferredToolResults()
    for call in requests.approvals:
        known = facts.get(call.tool_name) or ToolFacts(call.tool_name, call.tool_name, tags=(DEFAULT_TAG,))
        is_approved = approved is not None and approved.matches(known)
        results.approvals[call.tool_call_id] = True if is_approved else ToolDenied(DENIED)
    for call in requests.calls:
        results.calls[call.tool_call_id] = DENIED
    return results
