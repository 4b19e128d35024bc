"""Compaction by hand: make a session's conversation shorter now, between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic_ai import CancellationToken
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.usage import RunUsage

from .attempt import Choose
from .decisions import check_decided
from .edits import Edits, Live
from .errors import NotCompacted, UsageError, as_agent_error
from .fold import Fold, Run
from .histories import open_calls
from .journal import base_entry, usage_fields, usage_of
from .lease import Held
from .requests.overflow import tokens_of
from .slot import COMPACTION, Compaction

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import RunContext

__all__ = ["Compacted", "compact"]

NO_PLUGIN = "no plugin here makes conversations shorter: pip install deep-summarization"
TOO_SHORT = "there is nothing to compact yet"
TOO_OLD = "to compact by hand needs Pydantic AI 2.64 or newer: pip install --upgrade pydantic-ai-slim"
IS_NEW = hasattr(AbstractCapability, "prepare_model_request")
"""Whether a hook comes after all that prepare a request: without one, the run cannot end before it asks the model."""


@dataclass(frozen=True)
class Compacted:
    """What a compaction did.

    Attributes:
        messages: how many messages it replaced.
        before: tokens of the conversation before, about.
        after: tokens after it.
    """

    messages: int
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.messages} messages are summarized: {self.before:,} tokens became {self.after:,}, about"


class _Stopped(Exception):
    """The conversation is ready to be sent, and is not sent."""


class _Stop(AbstractCapability[Any]):
    """Ends a run at its first request, once plugins have prepared the conversation."""

    def __init__(self) -> None:
        self.id = "deep.sessions.compaction"
        self.description = None
        self.defer_loading = False
        self.messages: Sequence[ModelMessage] = ()

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Note the conversation, as it would be stored."""
        self.messages = [*ctx.messages]
        raise _Stopped


async def compact(
    edits: Edits, held: Held, live: Live, choose: Choose, *, keep: str, token: CancellationToken
) -> Compacted:
    """Make the conversation of a session shorter, as the plugins that reduce histories do, and store it.

    What an unfinished run needs to go on stays: its message, or its last response.

    Args:
        edits: keeps the session loaded.
        held: the lease.
        live: the session.
        choose: chooses the agent.
        keep: what the user wants to keep, in words.
        token: stops it.

    Raises:
        NotCompacted: it was not made shorter; the message says why.
        DecisionsPending: calls wait for a person.
        UsageError: a run of the session is unfinished, and may go on.
        AgentError: the store failed, or the lease was lost.
    """
    state, session_id = live.state, held.lease.session_id
    check_decided(state)
    if len(state.histories) > 1 or (state.run is not None and state.run.status == "running"):
        raise UsageError(f"session {session_id} has a run that was interrupted: resume it, or stop it, first")
    if not IS_NEW:
        raise NotCompacted(TOO_OLD)
    old, rest = _parted(state)
    if len(old) < 2:
        raise NotCompacted(TOO_SHORT)
    asked = Compaction(keep, by_hand=True)
    spent = RunUsage()
    new = await _reduced(edits, held, live, choose, old, asked, spent, token)
    before, after = tokens_of(old), tokens_of(new)
    if after >= before:
        raise NotCompacted(asked.why_not or NO_PLUGIN)
    if (run := state.run) is not None:
        spent.incr(usage_of(run.usage))
        run.usage = usage_fields(spent)
    whole = [*new, *rest]
    await edits.journal(held.lease, state, "").write(base_entry(whole, state.root.slots, run, None))
    state.root.messages, state.root.joined = whole, False
    kept = sum(any(message is other for other in old) for message in new)
    return Compacted(len(old) - kept, before, after)


async def _reduced(
    edits: Edits,
    held: Held,
    live: Live,
    choose: Choose,
    old: Sequence[ModelMessage],
    asked: Compaction,
    spent: RunUsage,
    token: CancellationToken,
) -> list[ModelMessage]:
    """Let the plugins prepare a request that follows a conversation; return that conversation as they leave it."""
    session_id, run_id, stop = held.lease.session_id, uuid4().hex, _Stop()
    agent, chosen = choose(live.state.run or Run(""))
    options: dict[str, Any] = {**chosen}
    options["capabilities"] = [*options.get("capabilities", ()), stop]
    live.deps.state[COMPACTION] = asked
    try:
        async with edits.workspace(session_id, live):
            await agent.run(
                "",
                message_history=[*old],
                run_id=run_id,
                conversation_id=session_id,
                deps=live.deps,
                usage=spent,
                cancellation_token=token,
                **options,
            )
    except _Stopped:
        pass
    except RunCancelled as error:
        raise held.lost or as_agent_error(error) from error
    except Exception as error:
        raise as_agent_error(error) from error
    finally:
        live.deps.state[COMPACTION] = None
        edits.unload_unedited(session_id)  # plugins may have changed its state as in a run
    return [message for message in stop.messages if message.run_id != run_id]


def _parted(state: Fold) -> tuple[list[ModelMessage], list[ModelMessage]]:
    """Return what may be replaced, and what an unfinished run goes on from."""
    messages, run = [*state.root.messages], state.run
    at = len(messages)
    if run is not None and run.status != "completed":
        own = [index for index, message in enumerate(messages) if run.wrote(message)]
        said = [index for index in own if isinstance(messages[index], ModelResponse)]
        at = said[-1] if said else own[0] if own else at
    while open_calls(messages[:at]):
        at = max(index for index in range(at) if isinstance(messages[index], ModelResponse))
    return messages[:at], messages[at:]
