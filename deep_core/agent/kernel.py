"""`Kernel` and `create_deep_agent`: a plugin kernel that creates agents of what plugins contribute."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from ..plugins.config import ignored_message
from ..plugins.kernel import PluginKernel, default_kernel

if TYPE_CHECKING:
    from typing import Unpack

    from pydantic_ai import Agent, DeferredToolRequests
    from pydantic_ai.models import Model
    from pydantic_ai.output import OutputSpec
    from pydantic_ai.workspaces import WorkspaceBackend
    from typing_extensions import TypeVar

    from ..parameters import AgentParameters
    from ..plugins.contributions import InterruptOn
    from .explain import Explanation
    from .run.session import DeepAgentDeps, NewApp

    Output = TypeVar("Output", default=str)


class Kernel(PluginKernel):
    """Find, check and order plugins, and create agents of what they contribute.

    A `PluginKernel`, with its parameters, that also creates agents.
    """

    def _config_warnings(self) -> Iterable[str]:
        if not any(layer.sealed for layer in self.config.layers):
            return ()
        from .config import restricted_layers

        found = restricted_layers(self.config)
        return [ignored_message(layer.source, layer.ignored) for layer in found if layer.ignored]

    @overload
    def create_agent(
        self,
        model: Model | str | None = None,
        *,
        interrupt_on: Literal[False],
        output_type: OutputSpec[Output] = str,
        **parameters: Unpack[AgentParameters],
    ) -> Agent[DeepAgentDeps[Any], Output]: ...
    @overload
    def create_agent(
        self,
        model: Model | str | None = None,
        *,
        interrupt_on: InterruptOn | None = ...,
        output_type: OutputSpec[Output] = str,
        **parameters: Unpack[AgentParameters],
    ) -> Agent[DeepAgentDeps[Any], Output | DeferredToolRequests]: ...
    def create_agent(self, model: Model | str | None = None, **parameters: Any) -> Agent[Any, Any]:
        """Create an agent of this kernel's plugins. Takes the parameters of `create_deep_agent` except `kernel`.

        Raises:
            PluginError: a named plugin failed, two plugins clash, or the kernel is closed.
            TypeError: an unknown keyword, with a suggestion.
        """
        from .assemble import assemble

        return assemble(self, model, parameters)

    def explain(self, agent: Agent[Any, Any] | None = None) -> Explanation:
        """Show what every plugin puts in front of the model, and its cost. Runs one request with a stand-in model."""
        from .explain import explain

        if agent is None:
            # A stand-in model: the configured one would ask for its key, and nothing is sent to it.
            from pydantic_ai.models.test import TestModel

            agent = self.create_agent(TestModel())
        return explain(agent, self)

    def load_deps(
        self, text: str, *, backend: WorkspaceBackend | None = None, app: NewApp = None
    ) -> DeepAgentDeps[NewApp]:
        """Load a session that `DeepAgentDeps.dump()` wrote."""
        from .run.session import DeepAgentDeps

        return DeepAgentDeps.load(text, backend=backend, kernel=self, app=app)


@overload
def create_deep_agent(
    model: Model | str | None = None,
    *,
    interrupt_on: Literal[False],
    output_type: OutputSpec[Output] = str,
    kernel: PluginKernel | None = ...,
    **parameters: Unpack[AgentParameters],
) -> Agent[DeepAgentDeps[Any], Output]: ...
@overload
def create_deep_agent(
    model: Model | str | None = None,
    *,
    interrupt_on: InterruptOn | None = ...,
    output_type: OutputSpec[Output] = str,
    kernel: PluginKernel | None = ...,
    **parameters: Unpack[AgentParameters],
) -> Agent[DeepAgentDeps[Any], Output | DeferredToolRequests]: ...
def create_deep_agent(
    model: Model | str | None = None, *, kernel: PluginKernel | None = None, **parameters: Any
) -> Agent[Any, Any]:
    """Create an agent of the installed plugins. The result is a plain `pydantic_ai.Agent`.

    Args:
        model: `"anthropic:claude-sonnet-4-5"`, a Pydantic AI model, or None for the configured one.
        kernel: the kernel whose plugins to use; None for the process's default kernel.
        **parameters: `output_type`: what a run returns, `str` by default. `interrupt_on`: which calls ask (tool name to
            True, False or a predicate on the call; or a tool expression; False for none). All others:
            [AgentParameters][deep_core.AgentParameters]. A plugin's name is a keyword too: a mapping of its options, an
            options instance, or False to leave the plugin out.

    Raises:
        PluginError: a named plugin failed, or two plugins clash.
        ConfigError: a configuration key or value is wrong.
        TypeError: an unknown keyword, with a suggestion.
    """
    config = parameters.get("config")
    if kernel is None and isinstance(config, str | os.PathLike | Mapping):
        kernel = Kernel(config=parameters.pop("config"))
    from .assemble import assemble

    return assemble(kernel or default_kernel(), model, parameters)
