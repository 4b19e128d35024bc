"""`DeepAgent`: an agent whose sessions are stored, resumed and never do a thing twice."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

from pydantic_ai import Agent, CancellationToken, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartStartEvent,
    TextPart,
    UserContent,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolResults
from pydantic_ai.tools import ToolDefinition as OfferedTool
from pydantic_ai.usage import UsageLimits
from typing_extensions import Unpack

from deep_core import (
    AgentConfig,
    ConfigError,
    PluginError,
    PluginKernel,
    create_deep_agent,
    create_default_deps,
    default_kernel,
    explain,
    tool_facts,
)
from deep_core.plugin_api import Config, ConfigLayer, DeepCapability, read_agent_config, suggest

from .capability import session_capabilities
from .compaction import Compacted
from .deltas import stored_deltas, text_of
from .deps import AgentDeps
from .digest import config_digest
from .errors import AgentClosed, MissingDependencyError, RuntimeUnavailable, ToolNotFound, UsageError, as_agent_error
from .outcome import Outcome
from .registry import AnyTool, ToolRegistry
from .results import AgentState, Delta, Message, RunResult, Status, ToolSummary
from .run_request import RunOptions, RunRequest
from .runner import Runner
from .slot import session_in
from .step_config import StepConfig, check_step
from .store import SessionStore
from .stores.open import open_store
from .stores.refusals import is_text

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.agent import EventStreamHandler

    from .fold import Run

__all__ = ["DeepAgent"]

logger = logging.getLogger("deep.sessions")
_MADE_BY_CREATE = object()


@dataclass
class _Active:
    """A run under way."""

    session_id: str
    run_id: str
    token: CancellationToken
    task: asyncio.Task[Any] | None
    has_begun: bool = False


class AllowedTools(AbstractCapability[Any]):
    """Offers, and lets run, only some of the agent's tools in one run."""

    def __init__(self, names: Iterable[str]) -> None:
        self.id = "deep.sessions.allowed_tools"
        self.description = None
        self.defer_loading = False
        self.names = frozenset(names)

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[OfferedTool]) -> list[OfferedTool]:
        """Leave the others out: a call of one is an unknown tool."""
        return [definition for definition in tool_defs if definition.name in self.names]


class DeepAgent:
    """An agent with sessions. `DeepAgent.create` makes it.

    One agent serves many sessions, tasks and threads. A session has one run at a time, in all processes together.
    """

    def __init__(self, made_by: object = None, **parts: Any) -> None:
        if made_by is not _MADE_BY_CREATE:
            raise TypeError("an agent is made by: await DeepAgent.create(config=…, deps=…, tools=…)")
        self._config: AgentConfig = parts["config"]
        self._deps: AgentDeps = parts["deps"]
        self._kernel: PluginKernel = parts["kernel"]
        self._store: SessionStore = parts["store"]
        self._registry: ToolRegistry = parts["registry"]
        self._parameters: Mapping[str, Any] = parts["parameters"]
        self._owned: AsyncExitStack = parts["owned"]
        self._active: dict[str, _Active] = {}
        self._last: Status = "idle"
        self._is_closed = False
        self._observer_failed = False
        self._tools: list[ToolSummary] | None = None
        self._steps = StepConfig()
        self._own: Agent[Any, Any] | None = parts.get("own")
        self._clients: WeakSet[AsyncOpenAI] = WeakSet()
        """Those of models at `base_url` that were made for this agent: it closes their connections."""
        agent = self._new_agent(self._config, self._registry)
        workspaces, app = self._deps.workspaces, self._deps.app
        self._runner = Runner(
            agent, self._store, kernel=self._kernel, workspaces=workspaces, app=app, choose=self._choose
        )

    @property
    def deps(self) -> AgentDeps:
        """The services that the agent runs on."""
        return self._deps

    @property
    def store(self) -> SessionStore:
        """Where the sessions are."""
        return self._store

    @property
    def kernel(self) -> PluginKernel:
        """Whose plugins the agent has."""
        return self._kernel

    @property
    def runner(self) -> Runner:
        """What runs the sessions."""
        return self._runner

    # -- create --------------------------------------------------------------------------------------------------------

    @classmethod
    async def create(
        cls,
        *,
        config: AgentConfig | Mapping[str, Any] | None = None,
        deps: AgentDeps | None = None,
        tools: Iterable[AnyTool] = (),
        **parameters: Any,
    ) -> DeepAgent:
        """Create an agent. Loads no session, and asks no model.

        Args:
            config: what the agent may do: an `AgentConfig`, or a mapping with its keys.
            deps: what it runs on.
            tools: the application's own: functions, tools of Pydantic AI, or `ToolDefinition`s.
            **parameters: further parameters of `deep_core.create_deep_agent`.

        Raises:
            MissingDependencyError: services are missing; the message names all of them.
            ConfigError: a key or value of the configuration is wrong; the message has its path.
            UsageError: two tools have one name, or configuration and services name different models.
            RuntimeUnavailable: a tool needs a workspace that no plugin provides.
        """
        deps = deps or AgentDeps()
        if taken := {"model", "config", "kernel", "backend", "tools"} & parameters.keys():
            raise TypeError(f"DeepAgent.create({min(taken)}=…): AgentDeps has it, or config=… or tools=…")
        kernel = deps.kernel or default_kernel()
        given, normal = read_config(config), effective_config(config, kernel)
        missing = [name for name in ("model", "session_store") if getattr(deps, name) is None]
        if "model" in missing and normal.model.id is not None:
            missing.remove("model")
        if missing:
            raise MissingDependencyError(
                f"the agent has no {' and no '.join(missing)}. Add: "
                f"AgentDeps({', '.join(f'{name}=…' for name in missing)})"
            )
        _check_model(deps, given)
        registry = ToolRegistry(below=deps.tool_registry)
        async with AsyncExitStack() as owned:
            store = deps.session_store
            if isinstance(store, str):
                store = open_store(store, kernel=deps.kernel)
                owned.push_async_callback(store.aclose)
            registry.register(tools)
            return cls(
                _MADE_BY_CREATE,
                config=normal,
                deps=deps,
                kernel=kernel,
                store=store,
                registry=registry,
                parameters=parameters,
                owned=owned.pop_all(),
            )

    @classmethod
    def of(cls, agent: Agent[Any, Any], *, deps: AgentDeps) -> DeepAgent:
        """Return an agent of another program with sessions: what it may do is decided there, and cannot change here.

        Args:
            agent: what `OwnAgent.in_sessions` returned.
            deps: what it runs on; its store is a store, and its model is the agent's.

        Raises:
            MissingDependencyError: the store is missing, or is an address.
        """
        kernel, store = deps.kernel or default_kernel(), deps.session_store
        if store is None or isinstance(store, str):
            raise MissingDependencyError("the agent has no session_store: open it with deep_sessions.open_store")
        return cls(
            _MADE_BY_CREATE,
            config=effective_config(None, kernel),
            deps=deps,
            kernel=kernel,
            store=store,
            registry=ToolRegistry(),
            parameters={},
            owned=AsyncExitStack(),
            own=agent,
        )

    def with_store(self, store: SessionStore) -> DeepAgent:
        """Return the same agent with its sessions in another store, which the caller closes; it is closed by itself."""
        return type(self)(
            _MADE_BY_CREATE,
            config=self._config,
            deps=replace(self._deps, session_store=store),
            kernel=self._kernel,
            store=store,
            registry=self._registry,
            parameters=self._parameters,
            owned=AsyncExitStack(),
            own=self._own,
        )

    def _new_agent(self, config: AgentConfig, registry: ToolRegistry, **instead: Any) -> Agent[Any, Any]:
        if self._own is not None:
            if instead or registry.tools(self):
                raise UsageError("this agent was made by another program: change it there")
            return self._own
        given = {**self._parameters, **instead}
        settings = {"agent": in_force(config, self._kernel, has_runtime=_has_runtime(self._deps))}
        given["capabilities"] = [*session_capabilities(), self._steps, *given.get("capabilities", ())]
        if self._deps.runtime is not None:
            given["backend"] = self._deps.runtime
        elif config.runtime_policy.profile is None and self._deps.workspaces is None and registry.needs_runtime():
            given["backend"] = "local"
        try:
            agent = create_deep_agent(
                self._deps.model, config=settings, kernel=self._kernel, tools=registry.tools(self), **given
            )
        except PluginError as error:
            if "provides a backend" in str(error) and registry.needs_runtime():
                tool = registry.needs_runtime()[0]
                raise RuntimeUnavailable(f"the tool {tool!r} needs a workspace: {error}") from error
            raise
        from .requests.capability import served_in

        if isinstance(self._deps.model, str | None) and (served := served_in(agent.model)) is not None:
            self._clients.add(served.client)
        return agent

    def _choose(self, run: Run) -> tuple[Agent[Any, Any], Mapping[str, Any]]:
        """Return what runs a run: the same on every attempt."""
        active = next((each for each in [*self._active.values()] if each.task is asyncio.current_task()), None)
        if active is not None:
            self._begin(active, run.id)
        agent = self._runner.agent
        if run.system_prompt is not None:
            # Pydantic AI's own override would replace the sections of plugins too.
            agent = self._new_agent(self._config, self._registry, instructions=run.system_prompt)
        options: dict[str, Any] = {
            "timeout": self._config.loop.max_run_duration_ms / 1000,
            # Pydantic AI's own limit of 50 requests counts those of subagents too: `loop.max_iterations` does not.
            "usage_limits": UsageLimits(request_limit=None if self._own is None else self._config.loop.max_iterations),
        }
        if run.allowed_tools is not None:
            options["capabilities"] = [AllowedTools(run.allowed_tools)]
        return agent, options

    # -- run -----------------------------------------------------------------------------------------------------------

    async def perform(self, request: RunRequest) -> RunResult:
        """Do what a request says: what `run`, `run_next`, `resume` and `retry` do. Raises what they raise."""
        self._check_open()
        make = self._deps.id_generator
        may_create = request.session_id is None or self._config.session.auto_create
        request = replace(
            request,
            session_id=request.session_id or make(),
            create=request.create and may_create,
            on_events=self._handler(request.on_events),
            token=request.token or CancellationToken(),
        )
        if request.verb in ("message", "next"):
            request = replace(request, run_id=request.run_id or make(), digest=config_digest(self._config))
        if request.verb == "message":
            self._check_message(request)
        # The id of a run that is resumed is known once it is loaded; see `_begin`.
        return await self._observed(request, request.run_id or f"{request.verb} {make()}")

    def _check_message(self, request: RunRequest) -> None:
        run_id = request.run_id or ""
        if request.system_prompt is not None and not self._config.prompt.allow_override:
            raise UsageError("system_prompt_override: the configuration forbids it: prompt.allow_override = false")
        if not is_text(run_id) or "~" in run_id:
            raise UsageError(f"run_id={run_id!r}: give it text without '~', which marks the attempts of a run")
        if request.allowed_tools is not None:
            known = {tool.name for tool in self.get_tools()} | _tool_names(self._runner.agent)
            if unknown := set(request.allowed_tools) - set(known):
                raise ToolNotFound(f"the agent has no tool {min(unknown)!r}.{suggest(min(unknown), known)}")

    async def run(
        self,
        input: str | Sequence[UserContent],
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        system_prompt_override: str | None = None,
        usage_limits: UsageLimits | None = None,
        labels: Mapping[str, str] | None = None,
        on_events: EventStreamHandler[Any] | None = None,
    ) -> RunResult:
        """Run the agent with a message. What ends a run early is in the result; what prevents one raises.

        The message is stored before the first request, and stays in the conversation however the run ends.

        Args:
            input: the message.
            session_id: the session to continue; None begins one.
            run_id: the id of this run; None makes one.
            allowed_tools: the names of the tools that this run may use; None for all.
            system_prompt_override: replaces the configuration's `prompt.system` in this run. Sections of plugins stay.
            usage_limits: of this run.
            labels: kept with the run, for the caller: `load_session(…).run.labels`.
            on_events: receives the events of Pydantic AI's stream.

        Raises:
            SessionBusy: the session has a run, in this process or another.
            SessionNotFound: it does not exist, and may not be made.
            DecisionsPending: calls of the session wait for decisions.
            ToolNotFound: `allowed_tools` names a tool that the agent does not have.
            UsageError: the session has a run of this id, or one is under way.
            AgentClosed: the agent was closed.
        """
        request = RunRequest(
            verb="message",
            session_id=session_id,
            prompt=input,
            run_id=run_id,
            allowed_tools=allowed_tools,
            system_prompt=system_prompt_override,
            labels=labels,
            usage_limits=usage_limits,
            on_events=on_events,
        )
        return await self.perform(request)

    def run_sync(self, input: str | Sequence[UserContent], **options: Unpack[RunOptions]) -> RunResult:
        """Run the agent with a message, outside an event loop. Takes what `run` takes."""
        return asyncio.run(self.run(input, **options))

    async def resume(self, session_id: str, *, on_events: EventStreamHandler[Any] | None = None) -> RunResult:
        """Continue a session's last run if it did not complete: a new attempt of the same run, from its last step.

        It may have been interrupted, may have failed, may have been aborted, or its waiting calls are decided. If calls
        wait that are not decided, the result says which.

        Args:
            session_id: the session.
            on_events: receives the events of Pydantic AI's stream.

        Raises:
            SessionBusy: the session has a run, in this process or another.
            SessionNotFound: it does not exist.
            NothingToResume: its last run completed, or it has none.
            AgentClosed: the agent was closed.
        """
        return await self.perform(RunRequest(verb="resume", session_id=session_id, on_events=on_events))

    async def retry(self, session_id: str, *, on_events: EventStreamHandler[Any] | None = None) -> RunResult:
        """Try a session's last run again, as `resume` does. Raises where calls wait.

        Args:
            session_id: the session.
            on_events: receives the events of Pydantic AI's stream.

        Raises:
            SessionBusy: the session has a run, in this process or another.
            SessionNotFound: it does not exist.
            DecisionsPending: calls of the session wait for decisions.
            NothingToResume: its last run completed, or it has none.
            AgentClosed: the agent was closed.
        """
        return await self.perform(RunRequest(verb="retry", session_id=session_id, on_events=on_events))

    async def compact(self, session_id: str, *, keep: str = "", token: CancellationToken | None = None) -> Compacted:
        """Make the conversation of a session shorter now. Arguments and errors as for `Runner.compact`."""
        self._check_open()
        return await self._runner.compact(session_id, keep=keep, token=token)

    async def run_next(
        self,
        session_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        on_events: EventStreamHandler[Any] | None = None,
    ) -> RunResult:
        """Run the agent with the first message that waits in a session: `Sessions.queue` and `steer` leave them.

        Args:
            session_id: the session.
            labels: kept with the run, for the caller.
            on_events: receives the events of Pydantic AI's stream.

        Raises:
            SessionBusy: the session has a run, in this process or another.
            SessionNotFound: it does not exist.
            NothingToResume: no message waits.
            DecisionsPending: calls of the session wait for decisions.
            AgentClosed: the agent was closed.
        """
        return await self.perform(RunRequest(verb="next", session_id=session_id, labels=labels, on_events=on_events))

    async def decide(self, session_id: str, results: DeferredToolResults, *, approval: str | None = None) -> None:
        """Record decisions on calls that wait. `resume` then continues the run, in this process or another.

        Args:
            session_id: the session.
            results: the decisions.
            approval: the question that they answer: `requests.approval`. Name it if an answer may come late, as over
                HTTP: a model may use the id of a call again. None answers whatever the calls ask now.

        Raises:
            NotPending: a call does not wait, was decided before, or asks something else now. Nothing is recorded.
            SessionNotFound: the session does not exist.
        """
        self._check_open()
        await self._runner.decide(session_id, results, approval=approval)

    async def run_stream(
        self,
        input: str | Sequence[UserContent],
        *,
        session_id: str | None = None,
        run_id: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        system_prompt_override: str | None = None,
        usage_limits: UsageLimits | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Delta | Message | RunResult]:
        """Run the agent with a message, and yield what it writes. Arguments as for `run`.

        Yields:
            The text as it comes, a `Message` after each turn of the model, and last exactly one `RunResult`, also
            where the run failed or was aborted.
        """
        items: asyncio.Queue[Delta | Message | RunResult | BaseException] = asyncio.Queue()

        async def handle(ctx: RunContext[Any], events: AsyncIterable[object]) -> None:
            texts: list[str] = []
            begun, again = set[int](), False
            async for event in events:
                session = session_in(ctx)
                if session is not None and session.depth:
                    continue
                if isinstance(event, PartStartEvent):
                    if event.index in begun:  # the answer was cut, and another one replaces it
                        again = bool(texts)
                        texts.clear()
                        begun.clear()
                    begun.add(event.index)
                text = text_of(event)
                if text:
                    texts.append(text)
                    items.put_nowait(Delta(text, again))
                    again = False
            if texts:
                items.put_nowait(Message("".join(texts)))

        def ended(task: asyncio.Future[RunResult]) -> None:
            # A task that was cancelled has no exception to ask for: asyncio would log that.
            items.put_nowait(asyncio.CancelledError() if task.cancelled() else task.exception() or task.result())

        running = asyncio.ensure_future(
            self.run(
                input,
                session_id=session_id,
                run_id=run_id,
                allowed_tools=allowed_tools,
                system_prompt_override=system_prompt_override,
                usage_limits=usage_limits,
                labels=labels,
                on_events=handle,
            )
        )
        running.add_done_callback(ended)
        try:
            while True:
                item = await items.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
                if isinstance(item, RunResult):
                    return
        finally:
            if not running.done():  # the caller left
                running.cancel()
                await asyncio.wait([running])

    async def _observed(self, request: RunRequest, run_id: str) -> RunResult:
        log, session_id, token = self._logger(), request.session_id or "", request.token or CancellationToken()
        active = _Active(session_id, run_id, token, asyncio.current_task())
        if self._active.setdefault(run_id, active) is not active:
            raise UsageError(
                f"a run {run_id!r} is under way in session {self._active[run_id].session_id}: choose another run_id"
            )
        try:
            outcome = await self._runner.perform(request)
        finally:
            del self._active[active.run_id]
        result = _result(session_id, outcome)
        self._last = result.status
        if not active.has_begun:  # only its end was missing
            self._tell("run_started", session_id, result.run_id)
        if result.error is None:
            log.info("run %s of session %s: %s", result.run_id, session_id, result.status)
        else:
            log.error("run %s of session %s: %s: %s", result.run_id, session_id, result.status, result.error.message)
        self._tell("run_ended", result)
        return result

    def _begin(self, active: _Active, run_id: str) -> None:
        """Note that a run begins. The id of one that is resumed is known only now."""
        if self._active.setdefault(run_id, active) is active and run_id != active.run_id:
            del self._active[active.run_id]
            active.run_id = run_id
        active.has_begun = True
        self._logger().info("run %s of session %s started", run_id, active.session_id)
        self._tell("run_started", active.session_id, run_id)

    def _handler(self, handler: EventStreamHandler[Any] | None) -> EventStreamHandler[Any] | None:
        return stored_deltas(handler) if self._config.session.persist_delta else handler

    def _logger(self) -> logging.Logger:
        """Return the logger of this agent: `deep.agents.<name>`."""
        log = logging.getLogger(f"deep.agents.{self._config.identity.name}")
        level = self._config.observability.log_level
        log.setLevel(getattr(logging, {"warn": "WARNING"}.get(level, level.upper())))
        return log

    def _tell(self, what: str, *about: Any) -> None:
        try:
            getattr(self._deps.observer, what)(*about)
        except Exception:
            if not self._observer_failed:
                logger.warning("the observer %s raised; runs go on without it", self._deps.observer, exc_info=True)
            self._observer_failed = True

    # -- control -------------------------------------------------------------------------------------------------------

    def abort(self, run_id: str) -> None:
        """Stop a run of this process. Does nothing for an id that is not running."""
        active = self._active.get(run_id)
        if active is not None:
            active.token.cancel()

    def get_state(self) -> AgentState:
        """Return what the agent does now, as a copy."""
        runs: dict[str, Status] = {
            run_id: self._runner.phase(active.session_id) for run_id, active in self._active.items()
        }
        states: list[Status] = [self._last, *runs.values()]
        return AgentState(states[-1], runs)

    def get_config(self) -> AgentConfig:
        """Return the configuration, as a copy."""
        return self._config.model_copy(deep=True)

    def set_config(
        self, config: AgentConfig | Mapping[str, Any], *, apply: Literal["next_run", "next_step"] = "next_run"
    ) -> None:
        """Change the configuration for the runs that begin from now on, or for those under way too.

        Args:
            config: the whole new configuration.
            apply: `next_run`: a run under way keeps what it began with. `next_step`: the next model request has the new
                model, its settings and the new base prompt, and a shorter `allow_list` and lower limits hold at once.
                Other keys must be as they were.

        Raises:
            ConfigError: a key or value is wrong; the configuration is unchanged.
            UsageError: configuration and services name different models, or a run under way cannot take the change.
        """
        self._check_open()
        if self._own is not None:
            raise UsageError("this agent was made by another program: change it there")
        _check_model(self._deps, read_config(config))
        new = effective_config(config, self._kernel)
        old, steps = self._config, self._steps
        if apply == "next_step":
            check_step(old, new)
        else:
            self._steps = StepConfig()
        try:
            agent = self._new_agent(new, self._registry)
        except BaseException:
            self._steps = steps
            raise
        if apply == "next_step":
            model: object = agent.model if new.model.id != old.model.id else None
            steps.change(old, new, model if isinstance(model, Model) else None)
        self._runner.agent = agent
        self._config, self._tools = new, None
        self._logger()

    def get_tools(self) -> list[ToolSummary]:
        """Return the tools that the model is offered."""
        if self._tools is None:
            from .instrumentation import untraced

            agent = self._runner.agent
            with untraced():  # a stand-in model is asked
                texts = {tool.name: tool.description or "" for tool in _offered(agent, self._kernel)}
                shown = explain(agent).tools if self._own is None else ()
            self._tools = [ToolSummary(t.name, texts.get(t.name, ""), t.tags, t.plugin, t.approval) for t in shown]
            if self._own is not None:
                self._tools = tools_of(agent, self._kernel)
        return [*self._tools]

    def register_tools(self, tools: Iterable[AnyTool]) -> None:
        """Add tools for the runs that begin from now on: all of them, or none.

        Raises:
            UsageError: two have one name, or the agent has a tool of that name.
        """
        self._check_open()
        registry = ToolRegistry(tools, below=self._registry)
        self._runner.agent = self._new_agent(self._config, registry)
        self._registry, self._tools = registry, None

    async def close(self) -> None:
        """Abort the runs under way, wait for them, and close what the agent opened. A second time does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        running = [active.task for active in self._active.values() if active.task is not None]
        for active in self._active.values():
            active.token.cancel()
        if others := [task for task in running if task is not asyncio.current_task()]:
            await asyncio.wait(others)
        for client in [*self._clients]:
            with suppress(RuntimeError):  # its connections are of another event loop, which has ended
                await client.close()
        await self._owned.aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise AgentClosed("the agent was closed: make another with DeepAgent.create")


def read_config(config: AgentConfig | Mapping[str, Any] | None, *below: ConfigLayer) -> AgentConfig:
    """Return a copy of a configuration, over weaker layers. Raises ConfigError with the path of what is wrong."""
    data = (
        config.model_dump(exclude_defaults=True)
        if isinstance(config, AgentConfig)
        else copy.deepcopy(dict(config or {}))
    )
    return read_agent_config(Config((ConfigLayer("code", {"agent": data}), *below)))


def effective_config(config: AgentConfig | Mapping[str, Any] | None, kernel: PluginKernel) -> AgentConfig:
    """Return a configuration over the kernel's own.

    Raises:
        ConfigError: a key or value is wrong, or the prompt names a variable that has no value.
    """
    found = read_config(config, *kernel.config.layers)
    try:
        found.prompt.check_names()
    except ValueError as error:
        raise ConfigError(f"code: agent.prompt: {error}") from None
    rounds = min(found.loop.max_tool_rounds, found.loop.max_iterations - 1)  # the last request answers
    return found.model_copy(update={"loop": found.loop.model_copy(update={"max_tool_rounds": rounds})})


def in_force(config: AgentConfig, kernel: PluginKernel, *, has_runtime: bool) -> dict[str, Any]:
    """Return the keys of `[agent]` that a `DeepAgent` sets: those of the configuration, and defaults that hold here.

    `create_deep_agent` applies only the keys that are set.
    """
    data = config.model_dump(exclude_defaults=True)
    # `Agent.run` ends a run that takes too long by itself, which costs nothing; see `_choose`.
    data["loop"] = config.loop.model_dump(exclude={"max_run_duration_ms"})
    if has_runtime or config.runtime_policy.profile is not None:
        data.setdefault("prompt", {}).setdefault("append_runtime_hint", config.prompt.append_runtime_hint)
    if "summarization" in kernel.active:
        data["context"] = config.context.model_dump()
    data.setdefault("tools_policy", {})["max_parallel"] = config.tools_policy.max_parallel
    return data


def _has_runtime(deps: AgentDeps) -> bool:
    return deps.runtime is not None or deps.workspaces is not None


def _check_model(deps: AgentDeps, config: AgentConfig) -> None:
    named, given = config.model.id, deps.model
    if named is None or given is None:
        return
    actual = given if isinstance(given, str) else f"{given.system}:{given.model_name}"
    if actual != named and actual.partition(":")[2] != named:
        raise UsageError(f"the configuration names the model {named!r}, and AgentDeps(model=…) is {actual!r}: drop one")


def tools_of(agent: Agent[Any, Any], kernel: PluginKernel) -> list[ToolSummary]:
    """Return the tools that an agent of another program offers its model."""
    found = ((tool, tool_facts(tool)) for tool in _offered(agent, kernel))
    return [
        ToolSummary(
            tool.name,
            tool.description or "",
            facts.tags,
            facts.plugin,
            "always" if tool.kind == "unapproved" else "never",
        )
        for tool, facts in found
    ]


def _offered(agent: Agent[Any, Any], kernel: PluginKernel) -> list[OfferedTool]:
    """Return what a stand-in model is offered. Works inside a running event loop too."""
    seen: list[OfferedTool] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.extend(info.function_tools)
        return ModelResponse([TextPart("done")])

    def ask() -> None:
        asyncio.run(
            agent.run("", model=FunctionModel(answer), deps=create_default_deps(kernel=kernel), output_type=str)
        )

    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(context.run, ask).result()
    return seen


def _tool_names(agent: Agent[Any, Any]) -> set[str]:
    """Return every tool that an agent has: a run may allow one that policy withholds, and has the intersection."""
    leaves: list[object] = []
    agent.root_capability.apply(leaves.append)
    return {name for leaf in leaves if isinstance(leaf, DeepCapability) for name in leaf.plan.tool_names}


def _result(session_id: str, outcome: Outcome) -> RunResult:
    output = outcome.result.output if outcome.result is not None and outcome.status == "completed" else None
    return RunResult(
        session_id=session_id,
        run_id=outcome.run_id,
        status="awaiting_human" if outcome.status == "awaiting" else outcome.status,
        message=outcome.text,
        error=None if outcome.error is None else as_agent_error(outcome.error),
        usage=outcome.usage,
        output=output,
        requests=outcome.requests,
        finish_reason=outcome.finish_reason,
    )
