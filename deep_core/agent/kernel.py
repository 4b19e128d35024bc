"""`Kernel` and `create_deep_agent`: the plugin kernel, and the agents that it makes of what plugins contribute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ..plugins.config import ignored_message
from ..plugins.kernel import PluginKernel, default_kernel

if TYPE_CHECKING:
    from pydantic_ai import Agent, AgentModelSettings, DeferredToolRequests
    from pydantic_ai.agent import AgentRetries
    from pydantic_ai.capabilities import AgentCapability
    from pydantic_ai.models import Model
    from pydantic_ai.output import OutputSpec
    from pydantic_ai.tools import Tool, ToolFuncEither
    from pydantic_ai.toolsets import AgentToolset
    from pydantic_ai.workspaces import WorkspaceBackend
    from typing_extensions import TypeVar

    from ..plugins.contributions import BackendFactory, Processor, Without
    from ..plugins.options import PluginOptions
    from ..plugins.status import ConfigSource
    from .config import AgentConfig
    from .explain import Explanation
    from .policy.rules import InterruptOn
    from .run.session import DeepAgentDeps
    from .tools.expressions import ToolExpression

    Output = TypeVar("Output", default=str)

__all__ = ["Kernel", "create_deep_agent"]


class Kernel(PluginKernel):
    """Find plugins, check them, order them, and make agents of what they contribute.

    It takes what `PluginKernel` takes; `PluginKernel` does all but the agents.
    """

    def _config_warnings(self) -> Iterable[str]:
        if not any(layer.sealed for layer in self.config.layers):
            return ()
        from .config import restricted_layers

        found = restricted_layers(self.config)
        return [ignored_message(layer.source, layer.ignored) for layer in found if layer.ignored]

    def create_agent(self, model: Model | str | None = None, **as_create_deep_agent: Any) -> Agent[Any, Any]:
        """Make an agent of this kernel's plugins. Takes what `create_deep_agent` takes, but `kernel`.

        Raises:
            PluginError: a named plugin failed, two plugins clash, or the kernel is closed.
            TypeError: an unknown keyword, with a suggestion.
        """
        from .assemble import assemble

        return assemble(self, model, as_create_deep_agent)

    def explain(self, agent: Agent[Any, Any] | None = None) -> Explanation:
        """What every plugin puts in front of the model, and what it costs. Runs one request with a stand-in model."""
        from .explain import explain

        if agent is None:
            # A stand-in model: the configured one would ask for its key, and nothing is sent to it.
            from pydantic_ai.models.test import TestModel

            agent = self.create_agent(TestModel())
        return explain(agent, self)

    def load_deps(self, text: str, *, backend: WorkspaceBackend | None = None, app: Any = None) -> DeepAgentDeps[Any]:
        """A session from what `DeepAgentDeps.dump()` wrote."""
        from .run.session import DeepAgentDeps

        return DeepAgentDeps[Any].load(text, backend=backend, kernel=self, app=app)


@overload
def create_deep_agent(
    model: Model | str | None = None,
    *,
    interrupt_on: Literal[False],
    output_type: OutputSpec[Output] = ...,  # pyright: ignore[reportInvalidTypeVarUse]  # unsolved is str, its default
    instructions: Any = ...,
    tools: Sequence[Tool[Any] | ToolFuncEither[Any, ...]] = ...,
    toolsets: Sequence[AgentToolset[Any]] = ...,
    history_processors: Sequence[Processor | Callable[..., Any]] = ...,
    capabilities: Sequence[AgentCapability[Any]] = ...,
    backend: str | WorkspaceBackend | BackendFactory | None = ...,
    tool_filter: str | ToolExpression | None = ...,
    plugins: Sequence[PluginOptions | Without] = ...,
    approvers: Sequence[str] = ...,
    native_tools: Sequence[str] = ...,
    config: AgentConfig | ConfigSource | None = ...,
    kernel: PluginKernel | None = ...,
    strict: bool = ...,
    name: str | None = ...,
    model_settings: AgentModelSettings[Any] | None = ...,
    retries: int | AgentRetries | None = ...,
    **more: Any,
) -> Agent[DeepAgentDeps[Any], Output]: ...
@overload
def create_deep_agent(
    model: Model | str | None = None,
    *,
    interrupt_on: InterruptOn | None = ...,
    output_type: OutputSpec[Output] = ...,  # pyright: ignore[reportInvalidTypeVarUse]  # unsolved is str, its default
    instructions: Any = ...,
    tools: Sequence[Tool[Any] | ToolFuncEither[Any, ...]] = ...,
    toolsets: Sequence[AgentToolset[Any]] = ...,
    history_processors: Sequence[Processor | Callable[..., Any]] = ...,
    capabilities: Sequence[AgentCapability[Any]] = ...,
    backend: str | WorkspaceBackend | BackendFactory | None = ...,
    tool_filter: str | ToolExpression | None = ...,
    plugins: Sequence[PluginOptions | Without] = ...,
    approvers: Sequence[str] = ...,
    native_tools: Sequence[str] = ...,
    config: AgentConfig | ConfigSource | None = ...,
    kernel: PluginKernel | None = ...,
    strict: bool = ...,
    name: str | None = ...,
    model_settings: AgentModelSettings[Any] | None = ...,
    retries: int | AgentRetries | None = ...,
    **more: Any,
) -> Agent[DeepAgentDeps[Any], Output | DeferredToolRequests]: ...
def create_deep_agent(
    model: Model | str | None = None,
    *,
    kernel: PluginKernel | None = None,
    config: AgentConfig | ConfigSource | None = None,
    **settings: Any,
) -> Agent[DeepAgentDeps[Any], Any]:
    """Make an agent of the installed plugins. The result is a plain `pydantic_ai.Agent`.

    Args:
        model: `"anthropic:claude-sonnet-4-5"`, a Pydantic AI model, or None for what the configuration says.
        kernel: whose plugins; None means the process's default kernel.
        config: an `AgentConfig`, or a file or mapping that is trusted as code is.
        **settings: `output_type`, `instructions`, `tools`, `toolsets`, `history_processors`, `capabilities`: the
            application's own, beside the plugins'. `backend`: a name, a factory or an instance. `interrupt_on`: tool
            name -> True, False or a predicate on the call; or a tool expression; False un-asks all. `tool_filter`: a
            tool expression, held when tools are shown and again when they are executed. `plugins`: options instances
            and `Without("name")`. `approvers`: plugins whose capabilities may answer approvals. `native_tools`: kinds
            of provider-run tools that are let through. `strict`: nothing a plugin does wrong is contained.
            `name`, `model_settings`, `retries` and every other parameter of `pydantic_ai.Agent`. A plugin's name:
            a mapping of its options, an options instance, or False to leave it out.

    Raises:
        PluginError: a plugin that was named failed, or two plugins clash.
        ConfigError: a configuration key or value is wrong.
        TypeError: an unknown keyword, with a suggestion.
    """
    if kernel is None and isinstance(config, str | os.PathLike | Mapping):
        kernel, config = Kernel(config=config), None
    from .assemble import assemble

    return assemble(kernel or default_kernel(), model, {**settings, "config": config})
