"""What a caller asks for when it runs a session: one record, from `Sessions` through `DeepAgent` to `Runner`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai.messages import UserContent
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from pydantic_ai import CancellationToken
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.usage import UsageLimits

__all__ = ["Prompt", "RunOptions", "RunRequest", "Verb"]

Prompt = str | Sequence[UserContent]
Verb = Literal["message", "next", "resume", "retry", "abort"]
"""`message` runs a message; `next` the first message that waits; `resume` and `retry` continue the last run; `abort`
ends a run that nobody executes."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One attempt to run a session.

    Attributes:
        verb: what to do.
        session_id: the session; None begins a new one.
        prompt: the message of the verb `message`.
        run_id: the id of a new run; None makes one.
        create: whether the verb `message` may create the session.
        digest: of the agent's configuration, kept with a new run.
        allowed_tools: the names of the tools that a new run may use; None for all. Kept with the run.
        system_prompt: replaces the configuration's `prompt.system` in a new run. Kept with the run.
        labels: kept with a new run, for the caller.
        usage_limits: of the run, over all its attempts; None for the agent's own.
        token: stops the attempt.
        on_events: receives the events of Pydantic AI's stream.
    """

    verb: Verb
    session_id: str | None = None
    prompt: Prompt | None = None
    run_id: str | None = None
    create: bool = True
    digest: str = ""
    allowed_tools: Sequence[str] | None = None
    system_prompt: str | None = None
    labels: Mapping[str, str] | None = field(default_factory=dict[str, str])
    usage_limits: UsageLimits | None = None
    token: CancellationToken | None = None
    on_events: EventStreamHandler[Any] | None = None


class RunOptions(TypedDict, total=False):
    """The options of `DeepAgent.run`, which `run_sync` takes too; see there."""

    session_id: str | None
    run_id: str | None
    allowed_tools: Sequence[str] | None
    system_prompt_override: str | None
    usage_limits: UsageLimits | None
    labels: Mapping[str, str] | None
    on_events: EventStreamHandler[Any] | None
