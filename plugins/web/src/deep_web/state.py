"""What a page shows of a session beside its events: its title, what waits, its plan, what it used."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from deep_sessions import (
    CARRY_OUT,
    AgentError,
    advice_on_stored,
    has_plan,
    load_session,
    questions_of,
    title_of,
)
from pydantic_ai.messages import ModelResponse

from .approvals import Approval, approval_of
from .incidents import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deep_sessions import Fold, SessionInfo

    from .site import Site

__all__ = ["Status", "described", "state_of", "status_of"]

Status = Literal["idle", "running", "waiting", "interrupted", "failed"]
AGAIN = {"failed": "failed", "aborted": "stopped"}
"""How a run ended that can be tried again, by the status of its session."""


def status_of(info: SessionInfo) -> Status:
    """Return the status of a session for people."""
    if info.status == "running":
        return "running" if info.holder is not None else "interrupted"
    return "waiting" if info.status == "awaiting" else "failed" if info.status == "failed" else "idle"


async def described(site: Site, info: SessionInfo) -> dict[str, Any]:
    """Return a session as lists have it."""
    try:
        title = await title_of(site.store, info.id)
    except AgentError as error:  # damaged: it can still be seen, and deleted
        title = f"(cannot be read: {error.code})"
    return {
        "id": info.id,
        "title": title,
        "created": _time(info.created_at),
        "changed": _time(info.updated_at),
        "status": status_of(info),
        "folder": site.folder,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


async def state_of(site: Site, session_id: str, *, show_errors: bool) -> dict[str, Any]:
    """Return the message `state` of a session. With `show_errors`, the page is of who has the keys and the servers.

    Raises:
        SessionNotFound: it does not exist.
    """
    async with site.lock(session_id):  # between a decision and the run that it continues, nothing is interrupted
        runs, state = site.current(session_id), await load_session(site.store, session_id)
        status = status_of(state.info)
        labels = {} if state.run is None else state.run.labels
        approval = None
        if status == "waiting":
            status, approval = await _approval(site, session_id, labels)
    queued = [*await runs.queued(session_id)]
    return {
        "type": "state",
        "status": status,
        "title": await title_of(site.store, session_id),
        "model": labels.get("model") or (site.models[0] if site.models else ""),
        "approval": approval,
        "todos": _todos(state),
        "interrupted": status == "interrupted",
        "again": AGAIN.get(state.info.status),
        "advice": advice_on_stored(state.run.error, labels.get("model", "")) if state.run and show_errors else "",
        "mode": None if site.standing is None else site.standing.mode(session_id, labels),
        "keeps_edits": site.standing is not None and site.standing.keeps_edits,
        "can_keep": site.standing is not None and site.standing.can_keep,
        "rules": _rules(site, session_id),
        "plan": CARRY_OUT if _has_plan(site, session_id, state) else None,
        "queued": queued,
        "held": bool(queued) and state.info.sends != "runner",
        "usage": _usage(site, session_id, state),
    }


async def _approval(site: Site, session_id: str, labels: Mapping[str, str]) -> tuple[Status, Approval | None]:
    requests = await site.current(session_id).waiting(session_id)
    if requests is None:
        return "interrupted", None  # all is decided, and no process continues it
    covered: list[str] = []
    if site.standing is not None:
        covered = site.standing.covered(session_id, requests, labels)
        if len(covered) == len(questions_of(requests)):
            if site.attends(session_id):
                return "running", None  # it is answered at once
            covered = []  # another interface's run: whoever is there answers
    how: dict[str, Any] = {"standing": site.standing, "covered": covered}
    try:
        async with site.workspace(session_id) as backend:
            return "waiting", await approval_of(requests, backend, **how)
    except Exception as error:  # noqa: BLE001 - recorded; the question can be answered without a diff
        record(f"session {session_id}: its files cannot be read for a diff", error)
        return "waiting", await approval_of(requests, None, **how)


def _rules(site: Site, session_id: str) -> list[dict[str, Any]]:
    """Return the rules that answer questions, in words."""
    if site.standing is None:
        return []
    rules = site.standing.rules(session_id)
    found = [(rule.about, False) for rule in rules.of_chat] + [(rule.about, True) for rule in rules.kept]
    return [{"about": about, "kept": kept} for about, kept in found]


def _has_plan(site: Site, session_id: str, state: Fold) -> bool:
    """Whether the last run ended with a plan that the user can let the agent carry out."""
    run = state.run
    if site.standing is None or run is None or state.info.status != "idle":
        return False
    return site.standing.mode(session_id, run.labels) == "plan" and has_plan(state)


def _todos(state: Fold) -> list[dict[str, str]]:
    slot = state.root.slots.get("todos", {"data": []})
    return [{"content": todo["content"], "status": todo["status"]} for todo in slot["data"]]


def _usage(site: Site, session_id: str, state: Fold) -> dict[str, Any]:
    spent = [state.run.before, state.run.usage] if state.run is not None else []
    last = next((each for each in reversed(state.messages()) if isinstance(each, ModelResponse)), None)
    costs = [float(each["cost"]) for each in spent if each.get("cost") is not None]
    return {
        "input_tokens": sum(int(each.get("input_tokens", 0)) for each in spent),
        "output_tokens": sum(int(each.get("output_tokens", 0)) for each in spent),
        "cost": sum(costs) if costs else None,
        "context_used": 0 if last is None else last.usage.input_tokens + last.usage.output_tokens,
        "context_window": site.context_window(session_id),
    }
