"""What `--agent` and `-m` name: contenders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deep_core.plugin_api import suggest

from .errors import AgentNotFound, SuiteError
from .peers.environments import PEERS, interpreter
from .runs import Contender

if TYPE_CHECKING:
    from deep_core import PluginKernel

    from .suites import Suite

__all__ = ["DEEP", "contenders", "named"]

DEEP = "deep"
"""The agent of all installed plugins, with their defaults."""


def named(kernel: PluginKernel, wanted: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Return the named configurations of `[plugins.trials.options.agents]`.

    Raises:
        AgentNotFound: a wanted one stands only in a project's file that is not trusted.
    """
    from .options import TrialsOptions

    found = kernel.context("trials").options(TrialsOptions).agents
    ignored, source = kernel.config.plugin("trials").project_options.get("agents", ({}, ""))
    for agent in wanted:
        if agent not in found and isinstance(ignored, Mapping) and agent in ignored:
            raise AgentNotFound(f"--agent {agent}: {source} has it, and is not trusted: deep config trust {source}")
    return found


def contenders(
    suite: Suite, agents: Sequence[str], models: Sequence[str], configs: Mapping[str, Mapping[str, Any]]
) -> list[Contender]:
    """Return each agent with each model.

    An agent of a module has its own model unless one is named; deep's and the peers' are those of the suite.

    Raises:
        AgentNotFound: no configuration has that name, and it is no `module:attribute`.
        SuiteError: no model is named, and the suite has none; or a peer has no way to the tools of a task's server.
    """
    found: list[Contender] = []
    for agent in agents or (DEEP,):
        python = ""
        if agent in PEERS and agent not in configs:
            if any(task.server for task in suite.tasks):
                raise SuiteError(f"suite {suite.name} has tools of a server, and {agent} takes none: --agent deep")
            config: Mapping[str, Any] = {}
            python = interpreter(agent)
        elif ":" in agent:
            config = {}
        elif agent in configs or agent == DEEP:
            config = configs.get(agent, {})
        else:
            known = {DEEP, *PEERS, *configs}
            raise AgentNotFound(
                f"--agent {agent}: no configuration has that name.{suggest(agent, known)} Name one "
                f"({', '.join(sorted(known))}), or a module:attribute"
            )
        own = ("",) if ":" in agent or _model(config) else suite.file.models
        chosen = tuple(models) or own
        if not chosen:
            raise SuiteError(f"suite {suite.name} names no model: add -m MODEL, such as -m openai:gpt-5.2")
        found += [Contender(agent, model, config, python=python) for model in chosen]
    return found


def _model(config: Mapping[str, Any]) -> bool:
    agent = config.get("agent", {})
    return isinstance(agent, Mapping) and "model" in agent
