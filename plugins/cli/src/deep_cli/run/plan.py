"""Plan mode: an agent that only reads until the user approves its plan.

The mode is a label of each run, which deep-sessions keeps with the run: a run that a crash interrupted continues in its
mode. `PlanModes.choose` gives such runs their agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deep_sessions import CARRY_OUT, MODE, PLAN, is_planned, planner_parameters

from ..terminal.asking import Choice, Said

if TYPE_CHECKING:
    from deep_sessions import Run
    from pydantic_ai import Agent

__all__ = ["CARRY_OUT", "MODE", "PLAN", "PlanModes", "is_planned", "message_after", "plan_choice", "planner_parameters"]

YES, LATER = "Carry it out", "Not now"


@dataclass(eq=False, repr=False)
class PlanModes:
    """Chooses the agent of each run, as `deep_sessions.Runner` asks: `Runner(agent, store, choose=modes.choose)`.

    Attributes:
        agent: of runs without a mode.
        make_planner: makes the agent of runs in plan mode, at the first of them.
    """

    agent: Agent[Any, Any]
    make_planner: Callable[[], Agent[Any, Any]]
    _planner: Agent[Any, Any] | None = field(default=None, init=False)

    def choose(self, run: Run) -> tuple[Agent[Any, Any], Mapping[str, Any]]:
        """Return the agent of a run."""
        return (self.planner if is_planned(run.labels) else self.agent), {}

    @property
    def planner(self) -> Agent[Any, Any]:
        """The agent of runs in plan mode."""
        if self._planner is None:
            self._planner = self.make_planner()
        return self._planner


def plan_choice(plan: str, slots: Mapping[str, Any]) -> Choice:
    """Return the question whether to carry out a plan.

    Args:
        plan: the plan in words, "" if the user has read it.
        slots: the session's state by the names of its slots, as JSON; its todos are part of the plan.
    """
    stored: Mapping[str, Any] = slots.get("todos", {})
    written: Sequence[Mapping[str, Any]] = stored.get("data") or ()
    todos = [f"- {todo.get('content', '')}" for todo in written]
    body = "\n".join([*([plan, ""] if plan and todos else [plan] if plan else []), *todos])
    return Choice("Carry out this plan?", (YES, LATER), body)


def message_after(said: Said | None) -> str | None:
    """Return the user's next message: `CARRY_OUT`, or the user's words on the plan; None for not now."""
    if said is None or said.text == LATER:
        return None
    return CARRY_OUT if said.text == YES else said.text
