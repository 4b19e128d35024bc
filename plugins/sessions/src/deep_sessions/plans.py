"""What the next attempt gives to the agent: a new message, or the rest of the last run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.tools import DeferredToolResults

from .decisions import all_decided, check_decided, results_of
from .entries import labels_of_mail, read_prompt
from .errors import NothingToResume, UsageError
from .fold import Fold, Run, kept_prompts
from .histories import closed
from .mailbox import first_message
from .run_request import Prompt, RunRequest

__all__ = ["Plan", "plan_of"]


@dataclass(eq=False, repr=False)
class Plan:
    """What the next attempt gives to the agent.

    Attributes:
        run: the run.
        prompt: its message; None continues the history.
        history: the conversation before it.
        results: decisions on the calls that waited.
        ended: how the run ended, where only its end is not stored yet.
        mail: the id of the mail that brought the prompt.
    """

    run: Run
    prompt: Prompt | None
    history: list[ModelMessage]
    results: DeferredToolResults | None = None
    ended: Literal["completed", "aborted"] | None = None
    mail: int | None = None


def plan_of(request: RunRequest, state: Fold) -> Plan | None:
    """Return what to do; None if there is nothing to do now: calls wait, or no run is left to abort.

    Raises:
        DecisionsPending: calls wait, and the request cannot pass them by.
        NothingToResume: no run is unfinished, or no message waits.
        UsageError: the session has a run of this id already.
    """
    match request.verb:
        case "message":
            return _message(request, state)
        case "next":
            return _next(request, state)
        case "abort":
            return _abort(state)
        case "retry":
            if state.run is not None and not all_decided(state.run):
                check_decided(state)
            return _resume(state)
        case "resume":
            return _resume(state)


def _message(request: RunRequest, state: Fold) -> Plan:
    check_decided(state)
    state.keep_prompt()
    history, prompt = closed(state), request.prompt or ""
    new = _new_run(request, prompt)
    if (state.run is not None and state.run.id == new.id) or any(new.wrote(message) for message in history):
        raise UsageError(f"session {state.info.id} has a run {new.id!r} already: choose another run_id")
    return Plan(new, prompt, history)


def _next(request: RunRequest, state: Fold) -> Plan:
    mail = first_message(state.mail)
    if mail is None:
        raise NothingToResume(f"session {state.info.id} has no message that waits")
    check_decided(state)
    state.keep_prompt()
    prompt = read_prompt(mail.data)
    new = _new_run(request, prompt)
    new.labels |= labels_of_mail(mail.data)
    return Plan(new, prompt, closed(state), mail=mail.id)


def _new_run(request: RunRequest, prompt: Prompt) -> Run:
    return Run(
        request.run_id or uuid4().hex,
        request.digest,
        1,
        prompt if isinstance(prompt, str) else [*prompt],
        allowed_tools=None if request.allowed_tools is None else [*request.allowed_tools],
        system_prompt=request.system_prompt,
        labels={**(request.labels or {})},
    )


def _abort(state: Fold) -> Plan | None:
    run = state.run
    if run is None or run.status not in ("running", "paused"):
        return None
    run.attempt += 1
    return Plan(run, None, [], ended="aborted")


def _resume(state: Fold) -> Plan | None:
    run = state.run
    if run is None or run.status == "completed":
        why = "it has no run yet" if run is None else "its last run completed"
        raise NothingToResume(f"session {state.info.id} has nothing to resume: {why}")
    if run.status == "paused" and not all_decided(run):
        return None
    has_ended = run.status in ("failed", "aborted")
    run.attempt += 1
    history = state.messages()
    if run.requests is not None:
        return Plan(run, None, history, results_of(run.requests, run.decisions))
    if kept := [message for message in kept_prompts(history) if run.wrote(message)]:
        # The model never answered: the agent gets the message anew, with all that plugins add to one.
        return Plan(run, run.prompt, closed(state)[: -len(kept)])
    if not any(run.wrote(message) for message in history):
        return Plan(run, run.prompt, closed(state))
    last = history[-1]
    if isinstance(last, ModelResponse) and not last.tool_calls:
        if not has_ended:
            return Plan(run, None, history, ended="completed")
        history = history[:-1]  # what was wrong with this answer ended the run: ask again
    return Plan(run, None, history)
