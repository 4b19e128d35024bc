"""Plan mode: runs that only read until a person approves their plan.

The mode is a label of each run, which the journal keeps: a run that a crash interrupted continues in its mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_core.plugin_api import Config

    from .fold import Fold

__all__ = ["CARRY_OUT", "MODE", "PLAN", "has_plan", "is_planned", "planner_parameters"]

MODE, PLAN = "mode", "plan"
"""The label of a run in plan mode, and its value."""
CARRY_OUT = "The plan is approved. Carry it out."
"""The message of the user that begins the run after plan mode."""
TEXT = (
    "Plan first: you can only read until the user approves a plan. Find out what you need, then end with the plan "
    "under the heading `## Plan`: what you will change, where, and how you will check it. If you can write todos, "
    "write its steps as todos too. Answers to questions need no plan."
)

# "## Plan" and what models write instead: "Plan: …", "**The plan**", "Here is my plan:".
_HEADING = re.compile(r"^[#*_ \t]*(?:[\w']+ ){0,4}plan\b[*_ \t]*(?::|$)", re.IGNORECASE | re.MULTILINE)


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


def has_plan(state: Fold) -> bool:
    """Whether the last run was in plan mode and wrote a plan, which a person can approve.

    A plan has the heading that its prompt asks for, or is written as todos. An answer to a question has none.
    """
    from pydantic_ai.messages import ModelResponse

    run = state.run
    if run is None or not is_planned(run.labels):
        return False
    answers = [each for each in state.messages() if isinstance(each, ModelResponse) and run.wrote(each)]
    calls = (call.tool_name for answer in answers for call in answer.tool_calls)
    # A prefix may stand before the tool's name.
    return any(re.search(_HEADING, answer.text or "") for answer in answers) or any(
        name.endswith("write_todos") for name in calls
    )
