"""The values that plugins contribute. They are frozen, and check themselves when created."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from ..names import check_name

if TYPE_CHECKING:
    from pydantic_ai.capabilities import HistoryProcessor
    from tool_expressions import ReasonKind, ToolExpression, ToolFacts

T = TypeVar("T")

ProcessorPhase = Literal["redact", "reduce", "annotate"]
"""The phases of history processors, in the order in which they run."""
PROCESSOR_PHASES: tuple[ProcessorPhase, ...] = get_args(ProcessorPhase)


class Contribution(NamedTuple, Generic[T]):
    """A contributed value and its plugin."""

    plugin: str
    value: T


@dataclass(frozen=True)
class StateSlot(Generic[T]):
    """A named piece of session state that a plugin owns, kept in `deps.state`.

    Attributes:
        name: unique among the plugins of a kernel.
        type: what the value is, for validation when a session is loaded: a type, or a function that returns it (so
            that the plugin module need not import it).
        default: makes the value of a new session.
        child: what a subagent sees: its own `fresh` value, or the parent's (`share`).
        persist: whether `deps.dump()` includes it.
        version: of the data. A stored value of another version goes through `migrate`.
        migrate: (stored JSON value, stored version) -> a JSON value of this version.
    """

    name: str
    type: type[T] | Callable[[], type[T]] = field(hash=False)  # Annotated may hold what has no hash
    default: Callable[[], T]
    child: Literal["fresh", "share"] = "fresh"
    persist: bool = True
    version: int = 1
    migrate: Callable[[Any, int], T] | None = None

    def __post_init__(self) -> None:
        check_name("slot", self.name)
        if self.child not in ("fresh", "share"):
            raise ValueError(f"slot {self.name!r}: child is fresh or share, not {self.child!r}")


@dataclass(frozen=True)
class Processor:
    """A history processor with a place in the chain.

    Attributes:
        name: unique within its plugin.
        fn: any form that Pydantic AI takes: sync or async, with or without the run context.
        phase: `redact` runs first, then `reduce`, then `annotate`.
        persist: whether the result replaces the stored history, or only shapes the request being sent.
        on_error: `keep` leaves the history as it was and goes on; `stop` ends the run. A `redact` processor always
            stops: what it should have hidden must not be sent.
    """

    name: str
    fn: HistoryProcessor[Any]
    phase: ProcessorPhase = "reduce"
    persist: bool = True
    on_error: Literal["keep", "stop"] = "keep"

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"processor {self.name!r}: fn must be callable, not {type(self.fn).__name__}")
        if self.phase not in PROCESSOR_PHASES:
            known = ", ".join(PROCESSOR_PHASES)
            raise ValueError(f"processor {self.name!r}: phase is one of {known}; not {self.phase!r}")
        if self.on_error not in ("keep", "stop"):
            raise ValueError(f"processor {self.name!r}: on_error is keep or stop, not {self.on_error!r}")

    @property
    def stops(self) -> bool:
        """Whether an error in it ends the run."""
        return self.on_error == "stop" or self.phase == "redact"


@dataclass(frozen=True)
class ToolCall:
    """A tool call that the policy checks.

    Attributes:
        tool: the name the model calls it by.
        original: the name its author gave it.
        plugin: the plugin it comes from; `app` for the application's own tools.
        tags: its tags, the default included.
        args: the validated arguments.
        call_id: the id the provider gave the call.
        depth: 0 in the agent, 1 in a subagent, and so on.
    """

    tool: str
    original: str
    plugin: str
    tags: frozenset[str]
    args: Mapping[str, Any]
    call_id: str
    depth: int = 0

    @classmethod
    def of(cls, tool: ToolFacts, args: Mapping[str, Any], call_id: str, depth: int) -> ToolCall:
        """Describe a call of this tool."""
        return cls(tool.name, tool.original, tool.plugin, frozenset(tool.tags), args, call_id, depth)


@dataclass(frozen=True)
class Allow:
    """No objection to the call."""

    reason: str = ""


@dataclass(frozen=True)
class Ask:
    """A person decides about the call: `Ask("it costs money")`. An answer is to this text and kind, and to no other."""

    reason: str = ""
    kind: ReasonKind = "guard"


@dataclass(frozen=True)
class Deny:
    """The call is refused: `Deny("not on Fridays")`; the model reads the reason."""

    reason: str = "denied by policy"


Verdict: TypeAlias = Allow | Ask | Deny
Predicate: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]
"""Whether a call asks."""
InterruptOn: TypeAlias = "bool | str | ToolExpression | Mapping[str, bool | Predicate]"
"""Which calls ask: tool name -> True, False or a predicate; or one expression; False for none."""


class Without(NamedTuple):
    """Leave a plugin out of an agent: `plugins=[Without("todo")]`."""

    plugin: str
