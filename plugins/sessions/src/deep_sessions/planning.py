"""Plan mode: runs that only read until a person approves their plan.

The mode is a label of each run, which the journal keeps: a run that a crash interrupted continues in its mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_core.plugin_api import Config

__all__ = ["CARRY_OUT", "MODE", "PLAN", "is_planned", "planner_parameters"]

MODE, PLAN = "mode", "plan"
"""The label of a run in plan mode, and its value."""
CARRY_OUT = "The plan is approved. Carry it out."
"""The message of the user that begins the run after plan mode."""
TEXT = (
    "Plan first: you can only read until the user approves a plan. Find out what you need, then end with the plan: "
    "what you will change, where, and how you will check it. If you can write todos, write its steps as todos too."
)


def planner_parameters(config: Config, tools: str) -> dict[str, Any]:
    """Return the parameters of `create_deep_agent` for an agent in plan mode.

    Args:
        config: the kernel's configuration, whose own prompt stays.
        tools: a tool expression: what such an agent may use. It narrows every other filter.
    """
    from deep_core.plugin_api import read_agent_config

    own = read_agent_config(config).instructions
    return {"tool_filter": tools, "instructions": TEXT if own is None else f"{own}\n\n{TEXT}"}


def is_planned(labels: Mapping[str, str]) -> bool:
    """Whether a run with these labels is in plan mode."""
    return labels.get(MODE) == PLAN
