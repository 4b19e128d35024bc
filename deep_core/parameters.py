"""The keyword parameters of `create_deep_agent`: the only list of them.

From these classes follow the types of `create_deep_agent` and `Kernel.create_agent`, the check of keywords, the names
that no plugin can have, and the parameters that a subagent inherits. Importing this module imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai import AgentModelSettings, AgentRetries, AnyConcurrencyLimit, EndStrategy, TemplateStr
    from pydantic_ai.agent.abstract import AgentInstructions, AgentMetadata
    from pydantic_ai.capabilities import AgentCapability
    from pydantic_ai.output import OutputSpec
    from pydantic_ai.tools import RunContext, Tool, ToolFuncEither
    from pydantic_ai.toolsets import AgentToolset
    from pydantic_ai.workspaces import WorkspaceBackend
    from tool_expressions import ToolExpression

    # As a caller names them: this file is the public interface of `create_deep_agent`.
    from . import AgentConfig, BackendFactory, PluginOptions, Processor, Without
    from .plugins.contributions import InterruptOn
    from .plugins.status import ConfigSource


class Own(TypedDict, total=False):
    """Parameters of one agent; a subagent has its own."""

    instructions: AgentInstructions[Any]
    """The application's own instructions; plugins' sections follow them."""
    name: str | None
    """The agent's name in traces and logs."""


class Inherited(TypedDict, total=False):
    """Parameters that a subagent inherits from its parent, unless its plugin gives others."""

    tools: Sequence[Tool[Any] | ToolFuncEither[Any, ...]]
    """The application's own tools."""
    toolsets: Sequence[AgentToolset[Any]]
    """The application's own toolsets."""
    history_processors: Sequence[Processor | Callable[..., Any]]
    """The application's own history processors."""
    backend: str | WorkspaceBackend | BackendFactory | None
    """Where files are and commands run: a backend's name, a factory or an instance."""
    strict: bool
    """Raise the errors of plugins instead of containing them."""
    description: TemplateStr[Any] | str | None
    """What the agent is for, in traces."""
    model_settings: AgentModelSettings[Any] | None
    """Settings that override the configuration's, or a function that returns them for each request."""
    retries: int | AgentRetries | None
    """How often the model may correct a call or a result; 3 by default."""
    system_prompt: str | Sequence[str]
    """As in `pydantic_ai.Agent`."""
    validation_context: Any | Callable[[RunContext[Any]], Any]
    """As in `pydantic_ai.Agent`."""
    defer_model_check: bool
    """As in `pydantic_ai.Agent`."""
    end_strategy: EndStrategy
    """As in `pydantic_ai.Agent`."""
    metadata: AgentMetadata[Any] | None
    """As in `pydantic_ai.Agent`."""
    tool_timeout: float | None
    """Seconds that a call of one of `tools` may take."""
    max_concurrency: AnyConcurrencyLimit
    """As in `pydantic_ai.Agent`."""


class Narrowed(TypedDict, total=False):
    """Parameters that a subagent adds to its parent's. They can only narrow those."""

    capabilities: Sequence[AgentCapability[Any]]
    """The application's own capabilities."""
    tool_filter: str | ToolExpression | None
    """A tool expression: the model sees only the tools that it matches, and only these run."""
    plugins: Sequence[PluginOptions | Without]
    """Options of plugins, and plugins to leave out."""


class Fixed(TypedDict, total=False):
    """Parameters that a subagent cannot change."""

    approvers: Sequence[str]
    """Plugins whose capabilities may answer approval requests."""
    innermost: Sequence[str]
    """Plugins whose capabilities may stand behind the kernel's last check, as those for durable execution do."""
    native_tools: Sequence[str]
    """Kinds of provider-run tools that may be sent, such as `web_search`."""
    config: AgentConfig | ConfigSource | None
    """An `AgentConfig`, or a file or mapping that is trusted as code is."""
    depth: int
    """The number of agents above this one, if a plugin creates a subagent without `context.create_agent`."""


class Deciding(TypedDict, total=False):
    """Parameters that decide the type of the agent; the overloads of `create_deep_agent` name them.

    A subagent has its own output type, and its `interrupt_on` is added to its parent's.
    """

    output_type: OutputSpec[Any]
    """What a run returns; `str` by default."""
    interrupt_on: InterruptOn | None
    """Which calls ask: tool name to True, False or a predicate on the call; or a tool expression; False: none."""


class AgentParameters(Own, Inherited, Narrowed, Fixed, total=False):
    """The keyword parameters of `create_deep_agent` and `Kernel.create_agent` besides `output_type` and `interrupt_on`.

    At run time the names of plugins are keywords too: `skills={"directories": ["./skills"]}`, `todo=False`. Their typed
    form is `plugins=[SkillsOptions(directories=["./skills"]), Without("todo")]`.
    """


class SubagentParameters(Own, Inherited, Narrowed, Deciding, total=False):
    """The keyword parameters of `context.create_agent`."""


class AllParameters(AgentParameters, Deciding, total=False):
    """All keyword parameters."""


PARAMETERS = frozenset(AllParameters.__annotations__)
NOT_INHERITED = frozenset({**Own.__annotations__, **Narrowed.__annotations__, **Deciding.__annotations__})
"""Parameters that a subagent does not inherit unchanged."""
LISTS = {name for name, kind in AllParameters.__annotations__.items() if kind.__forward_arg__.startswith("Sequence[")}
"""Parameters that are lists: a string would count as a list of letters, and an iterator would be empty for a
subagent."""
SESSION = ("deps_type", "deps", "app")
"""Parameters of a session that callers often give to the agent."""
RESERVED_NAMES = PARAMETERS | {"model", "kernel", *SESSION}
"""Names that a plugin cannot have."""
