"""Run a plugin under test: an agent with it alone, a scripted model that calls its tools, and the results."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic_ai import Agent, ToolDefinition
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.settings import ModelSettings

from deep_core import STANDARD_TAGS, DeepAgentDeps, Kernel, tool_facts
from deep_core.plugin_api import DeepCapability, Incident, Plan

from .arguments import fill, least
from .factories import make_deps
from .recorder import Recorder
from .script import Call, Request, ScriptedModel, Step
from .shell import shell_of
from .stepping import Steps, run_watched
from .subject import Subject, find_subject, installed_names

if TYPE_CHECKING:
    from .plugin_suite import PluginConformance

__all__ = ["Bench", "Run", "one_line", "plain_messages"]

PROMPT = "A run of the conformance suite."
NEEDS_EXAMPLES = {*STANDARD_TAGS} - {"read", "write"}
"""Tags of tools that are called only with an author's examples."""
SECONDS = 60
"""Seconds after which a run is given up: a guard against hanging, not a measurement."""


class _Model(ScriptedModel):
    """Play the script for the agent under test; an agent that a tool made (a subagent) gets `done`."""

    def __init__(self, prompt: str, steps: Sequence[Step], barrier: asyncio.Barrier | None) -> None:
        super().__init__(*steps)
        self.prompt = prompt
        self.barrier = barrier

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer as the base class does, in step with another session if there is one."""
        if self.barrier is not None and self._is_own(messages):
            # The other session may have ended: then do not wait.
            with contextlib.suppress(asyncio.BrokenBarrierError):
                await self.barrier.wait()
        return await super().request(messages, model_settings, model_request_parameters)

    def _is_own(self, messages: list[ModelMessage]) -> bool:
        parts = (part for message in messages for part in message.parts)
        first = next((part for part in parts if isinstance(part, UserPromptPart)), None)
        return first is not None and str(first.content).startswith(self.prompt)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo, *, streamed: bool) -> str | list[ToolCallPart]:
        return super()._answer(messages, info, streamed=streamed) if self._is_own(messages) else "done"


@dataclass
class Run:
    """One run and its results.

    Attributes:
        requests: the model's requests.
        deps: the session.
        folder: the session's workspace.
        messages: the conversation, if the run succeeded.
        error: the error that ended it, if any.
        incidents: the plugin's errors that the kernel contained.
        left: tasks that still existed after it.
    """

    requests: list[Request]
    deps: DeepAgentDeps[Any]
    folder: Path
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    error: BaseException | None = None
    incidents: tuple[Incident, ...] = ()
    left: tuple[str, ...] = ()


class Bench:
    """A plugin under test, with the plugins that the suite names and the installed owners of the hooks it implements.

    Args:
        suite: the settings: an instance of a subclass of `PluginConformance`.
        folder: the parent of the sessions' workspaces.

    Attributes:
        absent_owners: plugins whose hooks it implements, and which are not installed.
    """

    def __init__(self, suite: PluginConformance, folder: Path) -> None:
        self.suite = suite
        self.folder = folder
        self.recorder = Recorder()
        self.subject: Subject = find_subject(suite.plugin)
        self._beside = [find_subject(plugin) for plugin in suite.beside]
        here = {self.subject.name, *(subject.name for subject in self._beside)}
        owners = {owner for owner in self.subject.hooks.values() if owner is not None} - here
        self._beside += [find_subject(owner) for owner in sorted(owners & installed_names())]
        self.absent_owners = owners - installed_names()
        self._sessions = itertools.count(1)

    @property
    def asleep(self) -> bool:
        """Whether every hook that it implements belongs to a plugin that is not installed."""
        owners = self.subject.hooks.values()
        return bool(owners) and all(owner in self.absent_owners for owner in owners)

    # -- kernels and agents --------------------------------------------------------------------------------------------

    def make_kernel(self, *neighbors: object, order: int = 0) -> Kernel:
        """Create a kernel of the plugin, the plugins it needs, and neighbors. The caller closes it."""
        shells = [shell_of(subject, self.recorder.hook_calls) for subject in (self.subject, *self._beside)]
        settings: dict[str, Any] = {"order": order}
        if self.suite.plugin_options is not None:
            settings["options"] = dict(self.suite.plugin_options)
        config = {"plugins": {self.subject.name: settings}}
        kernel = Kernel(plugins=[*shells, *neighbors, self.recorder.listener], discover=False, config=config)
        self.recorder.kernels.append(kernel)
        return kernel

    def make_agent(self, kernel: Kernel) -> Agent[Any, Any]:
        """Create an agent whose calls never ask."""
        return kernel.create_agent(ScriptedModel(), interrupt_on=False)

    def close(self) -> None:
        """Close every kernel."""
        for kernel in reversed(self.recorder.kernels):
            kernel.close()

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel of most checks. Skips the test if the plugin does not load."""
        if self.asleep:
            owners = ", ".join(sorted(self.absent_owners))
            pytest.skip(f"it implements only hooks of {owners}, which is not installed (see test_hooks_are_valid)")
        try:
            return self.make_kernel()
        except Exception as error:  # noqa: BLE001 - test_hooks_are_valid reports it
            pytest.skip(f"it does not load (see test_hooks_are_valid): {one_line(error)}")

    @cached_property
    def agent(self) -> Agent[Any, Any]:
        """The agent of most checks. Skips the test if none can be created."""
        kernel = self.kernel
        try:
            return self.make_agent(kernel)
        except Exception as error:  # noqa: BLE001 - test_hooks_are_valid or test_tool_names reports it
            pytest.skip(f"no agent can be created with it (see the other checks): {one_line(error)}")

    @cached_property
    def creation_incidents(self) -> tuple[Incident, ...]:
        """The plugin's errors during creation of an agent, which the kernel contained."""
        kernel = self.make_kernel()
        self.make_agent(kernel)
        return tuple(kernel.latest)

    def parts(self, agent: Agent[Any, Any]) -> Plan:
        """What an agent was built from."""
        leaves: list[object] = []
        agent.root_capability.apply(leaves.append)
        return next(leaf for leaf in leaves if isinstance(leaf, DeepCapability)).plan

    def contributions(self, hook: str) -> list[Any]:
        """The last result of the plugin's hook; empty if it has none, or it raised."""
        calls = [call for call in self.recorder.hook_calls if call.plugin == self.subject.name and call.hook == hook]
        result: Any = calls[-1].result if calls else None
        if result is None:
            return []
        if isinstance(result, Mapping):
            return list(cast("Mapping[str, Any]", result).items())
        return list(cast("list[Any]", result)) if isinstance(result, list | tuple) else [result]

    # -- tools ---------------------------------------------------------------------------------------------------------

    @cached_property
    def first(self) -> Run:
        """A run without calls."""
        return self.run()

    @property
    def tools(self) -> list[ToolDefinition]:
        """The plugin's tools as the model sees them."""
        return self.own_tools(self.require_success(self.first).requests[0])

    def own_tools(self, request: Request) -> list[ToolDefinition]:
        """The plugin's tools in a request."""
        return [tool for tool in request.tools if tool_facts(tool).plugin == self.subject.name]

    def callable(self, tool: ToolDefinition) -> bool:
        """Whether the suite may call it: the author gave examples, or its tags say that it is harmless."""
        if tool.name in self.suite.examples:
            return True
        facts = tool_facts(tool)
        return not facts.asks and NEEDS_EXAMPLES.isdisjoint(facts.tags)

    def calls(self, canary: str) -> list[Call]:
        """One call of every tool that may be called, and one for each of the author's examples."""
        return [call for tool in self.tools if self.callable(tool) for call in self._calls_of(tool, canary)]

    def _calls_of(self, tool: ToolDefinition, canary: str) -> Iterator[Call]:
        examples: Any = self.suite.examples.get(tool.name)
        if examples is None:
            yield Call(tool.name, least(tool.parameters_json_schema, canary))
            return
        several: list[Any] = [examples] if isinstance(examples, Mapping) else list(examples)
        for example in several:
            yield Call(tool.name, fill(example, canary))

    # -- runs ----------------------------------------------------------------------------------------------------------

    def run(self, *steps: Step, agent: Agent[Any, Any] | None = None, watch: Steps | None = None, **how: Any) -> Run:
        """Run once in a new session and event loop. `how` is for `run_async`."""
        run_one = self.run_async(agent or self.agent, *steps, **how)
        try:
            return asyncio.run(run_one) if watch is None else run_watched(run_one, watch)
        except SystemExit as error:  # asyncio raises it at once, past everything that awaits
            return Run([], DeepAgentDeps(), self.folder, error=error)

    async def run_async(
        self,
        agent: Agent[Any, Any],
        *steps: Step,
        canary: str = "canary",
        barrier: asyncio.Barrier | None = None,
        history: Sequence[ModelMessage] = (),
        previous: Run | None = None,
    ) -> Run:
        """Run once. An error is in `error`."""
        kernel = self.parts(agent).kernel
        incidents_before = len(kernel.latest)
        folder = self.folder / f"session-{next(self._sessions)}"
        deps = make_deps(kernel, folder, files=self.suite.files) if previous is None else previous.deps
        prompt = PROMPT if canary == "canary" else f"{PROMPT} {canary}"
        model = _Model(prompt, steps, barrier)
        if history:  # each turn differs, or a window that slides over equal turns would look unchanged
            prompt = f"{prompt} After {len(history)} messages."
        run = Run(model.requests, deps, folder if previous is None else previous.folder)
        before = asyncio.all_tasks()
        try:
            async with asyncio.timeout(SECONDS):
                # A separate task: a cancellation must not hit this one, which reports it.
                result = await asyncio.create_task(
                    agent.run(prompt, deps=deps, model=model, message_history=list(history))
                )
            run.messages = result.all_messages()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a check reports it
            run.error = error
        finally:
            if barrier is not None:
                await barrier.abort()
        run.left = tuple(str(task.get_coro()) for task in asyncio.all_tasks() - before)
        run.incidents = tuple(kernel.latest)[incidents_before:]
        return run

    def require_success(self, run: Run) -> Run:
        """Return the run if it succeeded; else skip the test, since test_failures_are_contained reports it."""
        if run.error is not None:
            pytest.skip(f"a run with it fails (see test_failures_are_contained): {one_line(run.error)}")
        return run


def one_line(error: BaseException) -> str:
    """Format an exception on one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


UNSTABLE = frozenset({"timestamp", "run_id", "conversation_id", "usage", "metadata", "provider_response_id"})
"""Fields of messages that never reach a model."""


def plain_messages(messages: Sequence[ModelMessage]) -> list[str]:
    """Messages as text, without values that vary between runs and are not sent."""
    return [json.dumps(_plain(message), sort_keys=True) for message in _as_json(messages)]


def _as_json(messages: Sequence[ModelMessage]) -> list[Any]:
    # The instructions of an earlier request are not sent again; those of this one are compared separately.
    bare = [_without_instructions(message) for message in messages]
    return ModelMessagesTypeAdapter.dump_python(bare, mode="json")


def _without_instructions(message: ModelMessage) -> ModelMessage:
    return ModelRequest(parts=message.parts) if isinstance(message, ModelRequest) else message


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in cast("dict[str, Any]", value).items() if k not in UNSTABLE}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value
