"""Tools as the application defines them: `ToolDefinition`, and the registry that holds them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import UnavailableWorkspace

from .errors import UsageError

AnyTool: TypeAlias = "Callable[..., Any] | Tool[Any] | ToolDefinition"

__all__ = ["AnyTool", "ToolContext", "ToolDefinition", "ToolRegistry", "ToolSpec"]


@dataclass(frozen=True)
class ToolSpec:
    """A tool as a model sees it: its schema, and nothing of what runs it."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class ToolContext:
    """What a tool's function may use: only what its definition declares.

    Attributes:
        run: the context of Pydantic AI.
        runtime: the session's workspace; None unless the tool declares `requires_runtime`.
        agent: the agent that runs; None unless it declares `requires_agent`.
    """

    run: RunContext[Any]
    runtime: Any = None
    agent: Any = None


@dataclass(frozen=True)
class ToolDefinition:
    """A tool of the application. It holds no model, agent or workspace.

    Attributes:
        name: what the model calls it.
        description: what the model reads.
        parameters: the JSON schema of its arguments: an object.
        execute: runs it; it may be async. It gets the arguments as keywords, and first a `ToolContext` if its first
            parameter is called `ctx`.
        tags: what it does, such as `read` or `write`. Without tags it counts as `write`.
        timeout: seconds that a call may take.
        requires_approval: whether each call asks a person.
        requires_runtime: whether it uses the session's workspace.
        requires_agent: whether it uses the agent.
        on_unknown: what to do about a call that a crash interrupted: `fail`, `retry` or `ask`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    execute: Callable[..., Any]
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    requires_approval: bool = False
    requires_runtime: bool = False
    requires_agent: bool = False
    on_unknown: str | None = None

    @property
    def spec(self) -> ToolSpec:
        """What a model sees of it."""
        return ToolSpec(self.name, self.description, self.parameters)

    def as_tool(self, agent: object = None) -> Tool[Any]:
        """Return it as a tool of Pydantic AI.

        Args:
            agent: what `ToolContext.agent` is, if the tool declares that it needs it.
        """
        wants_context = next(iter(inspect.signature(self.execute).parameters), "") == "ctx"

        async def call(ctx: RunContext[Any], **arguments: Any) -> Any:
            runtime = ctx.workspace if self.requires_runtime else None
            if isinstance(getattr(runtime, "backend", runtime), UnavailableWorkspace):
                raise ToolFailed(f"{self.name} needs a workspace, and this session has none.")
            if self.requires_agent and agent is None:
                raise ToolFailed(f"{self.name} needs the agent, and this run has none.")
            given = (ToolContext(ctx, runtime, agent if self.requires_agent else None),) if wants_context else ()
            result = self.execute(*given, **arguments)
            return await result if inspect.isawaitable(result) else result

        metadata: dict[str, Any] = {"tags": [*self.tags]} if self.tags else {}
        if self.on_unknown is not None:
            metadata["on_unknown"] = self.on_unknown
        tool = Tool[Any].from_schema(call, self.name, self.description, dict(self.parameters), takes_ctx=True)
        tool.metadata, tool.timeout, tool.requires_approval = metadata or None, self.timeout, self.requires_approval
        return tool


class ToolRegistry:
    """Tools by name. It only holds them.

    Args:
        tools: functions, tools of Pydantic AI, or definitions.
        below: a registry whose tools this one has too. Nothing is ever added to it.
    """

    def __init__(self, tools: Iterable[AnyTool] = (), *, below: ToolRegistry | None = None) -> None:
        self._below = below
        self._own: dict[str, Tool[Any] | ToolDefinition] = {}
        self.register(tools)

    def register(self, tools: Iterable[AnyTool]) -> None:
        """Add tools: all of them, or none.

        Raises:
            UsageError: two have one name, or the registry has a tool of that name.
        """
        new: dict[str, Tool[Any] | ToolDefinition] = {}
        for given in tools:
            tool = cast(
                "Tool[Any] | ToolDefinition", given if isinstance(given, Tool | ToolDefinition) else Tool(given)
            )
            if tool.name in new or tool.name in self:
                raise UsageError(f"there are two tools {tool.name!r}: rename one. No tool was registered")
            new[tool.name] = tool
        self._own.update(new)

    def __contains__(self, name: object) -> bool:
        return name in self._own or (self._below is not None and name in self._below)

    def __iter__(self) -> Iterator[str]:
        yield from self._below or ()
        yield from self._own

    def __getitem__(self, name: str) -> Tool[Any] | ToolDefinition:
        if name not in self._own and self._below is not None:
            return self._below[name]
        return self._own[name]

    def tools(self, agent: object = None) -> list[Tool[Any]]:
        """Return all of them as tools of Pydantic AI; see `ToolDefinition.as_tool`."""
        found = [self[name] for name in self]
        return [tool.as_tool(agent) if isinstance(tool, ToolDefinition) else tool for tool in found]

    def needs_runtime(self) -> list[str]:
        """Return the names of the tools that declare that they use a workspace."""
        return [name for name in self if getattr(self[name], "requires_runtime", False)]
