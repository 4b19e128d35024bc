"""Trace which plugin's code ran, when, for how long and with what outcome. Off by default."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from .errors import describe_error, suggest
from .names import visible

KINDS = ("import", "hook", "toolset", "tool", "section", "processor", "backend")


@dataclass(eq=False)
class Traced:
    """One step of one plugin.

    Attributes:
        plugin: the plugin whose code ran.
        kind: one of `KINDS`.
        name: of the hook, tool, section, and so on.
        milliseconds: its duration, with the steps inside and all waiting.
        outcome: `ok`, or the exception: `ValueError: no such city`.
        steps: the steps of other plugins that it called.
    """

    plugin: str
    kind: str
    name: str
    milliseconds: float = 0.0
    outcome: str = "ok"
    steps: list[Traced] = field(default_factory=list["Traced"])

    def lines(self, depth: int = 0) -> Generator[str]:
        """Yield a line for this step and for each step inside."""
        outcome = "" if self.outcome == "ok" else f"  {self.outcome}"
        what = f"{'  ' * depth}{self.plugin}: {self.kind} {self.name}"
        yield f"{self.milliseconds:8.2f} ms  {what}{outcome}"
        for step in self.steps:
            yield from step.lines(depth + 1)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "steps": [step.to_json() for step in self.steps]}


@dataclass(eq=False)
class Trace:
    """The traced steps, in the order in which they ended.

    Attributes:
        steps: the outermost steps; each holds the steps that it called.
    """

    steps: list[Traced] = field(default_factory=list[Traced])

    def add(self, step: Traced) -> None:
        """Add an outermost step that has ended."""
        self.steps.append(step)

    def by_plugin(self) -> dict[str, float]:
        """Return the milliseconds spent in each plugin's own code, the slowest first."""
        spent: dict[str, float] = {}
        for step in (steps := [*self.steps]):
            own = step.milliseconds - sum(inner.milliseconds for inner in step.steps)
            spent[step.plugin] = spent.get(step.plugin, 0.0) + max(0.0, own)
            steps += step.steps  # grows while the loop goes on
        return dict(sorted(spent.items(), key=lambda item: -item[1]))

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {"schema": 1, "steps": [step.to_json() for step in self.steps]}

    def __str__(self) -> str:
        return "\n".join(line for step in self.steps for line in step.lines())


class _Printed(Trace):
    """Prints each step to stderr and keeps none: a process traced by DEEP_TRACE may run for months."""

    def add(self, step: Traced) -> None:
        print(*map(visible, step.lines()), sep="\n", file=sys.stderr)


_PRINTED = _Printed()
"""One for all kernels: a step inside another kernel's step is printed once."""
_current: ContextVar[_Open | None] = ContextVar("deep_open_step", default=None)
_OFF: AbstractContextManager[None] = nullcontext()


class Tracer:
    """Gives one kernel's steps to its active traces, and to OpenTelemetry if the run is instrumented."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        self._traces: tuple[Trace, ...] = (_PRINTED,) if to_stderr else ()
        self._changing = Lock()
        self._spans: tuple[Sequence[str], float] = KINDS, 0.0

    def choose_spans(self, *kinds: str, min_ms: float = 0.0) -> None:
        """Choose the steps that become OpenTelemetry spans: by default all that belong to an instrumented run.

        Args:
            *kinds: `tool`, `section` and so on; none for all.
            min_ms: the shortest step, in milliseconds. With one, a span is written when its step has ended, with the
                attribute `deep.outcome`, and the spans of what ran inside are in the span around it.

        Raises:
            ValueError: there is no such kind, with a suggestion.
        """
        if wrong := next((kind for kind in kinds if kind not in KINDS), None):
            raise ValueError(f"no kind of step {wrong!r}.{suggest(wrong, KINDS)} Kinds: {', '.join(KINDS)}")
        self._spans = kinds or KINDS, min_ms

    @contextmanager
    def trace(self) -> Generator[Trace]:
        """Record all steps, of all threads, until the block ends."""
        trace = Trace()
        with self._changing:
            self._traces = (*self._traces, trace)
        try:
            yield trace
        finally:
            with self._changing:
                self._traces = tuple(other for other in self._traces if other is not trace)

    def step(self, plugin: str, kind: str, name: str, run: Any = None) -> AbstractContextManager[None]:
        """Return the context manager for one plugin's code. Without a trace it costs one call.

        Args:
            plugin: the plugin whose code runs.
            kind: see `Traced`.
            name: of the hook, tool, and so on.
            run: the `RunContext` of the run that it belongs to, whose OpenTelemetry tracer then has a span of it.
        """
        # By name, because the kernel does not import OpenTelemetry: Pydantic AI gives this one to runs without it.
        watched = run is not None and type(run.tracer).__name__ != "NoOpTracer" and kind in self._spans[0]
        if not self._traces and not watched:
            return _OFF
        return _traced(_Open(self._traces, Traced(plugin, kind, name)), run if watched else None, self._spans[1])


@dataclass(eq=False)
class _Open:
    """A step under way, and the traces that it is in."""

    traces: tuple[Trace, ...]
    step: Traced
    is_open: bool = True


@contextmanager
def _traced(here: _Open, run: Any, min_ms: float) -> Generator[None]:
    step, outer = here.step, _current.get()
    # A task started inside a step may outlive it: it keeps the context in which it was created.
    outer = outer if outer is not None and outer.is_open else None
    span, late = _OFF, None
    if run is not None:
        about = {"deep.plugin": step.plugin, "deep.kind": step.kind, "deep.name": step.name}
        # As on Pydantic AI's own spans.
        about |= {"gen_ai.agent.call.id": run.run_id or "", "gen_ai.conversation.id": run.conversation_id or ""}
        about["deep.session"] = getattr(run.deps, "session_id", "")  # a run without a session is refused elsewhere
        name = f"{step.plugin}: {step.kind} {step.name}"
        if min_ms:
            late = partial(run.tracer.start_span, name, attributes=about, start_time=time.time_ns())
        else:
            span = run.tracer.start_as_current_span(name, attributes=about)
    token, began = _current.set(here), time.perf_counter()
    try:
        with span:
            yield
    except BaseException as error:
        step.outcome = describe_error(error)
        raise
    finally:
        step.milliseconds = (time.perf_counter() - began) * 1000
        if late is not None and step.milliseconds >= min_ms:
            ended = late()
            ended.set_attribute("deep.outcome", step.outcome)
            ended.end()
        _current.reset(token)
        here.is_open = False
        _file(here, outer)


def _file(here: _Open, outer: _Open | None) -> None:
    """Add a step that has ended to the step around it, and to the traces that this one is not in."""
    around = outer is not None and outer.is_open
    if outer is not None and around:
        outer.step.steps.append(here.step)
    for trace in here.traces:
        # The outer step is not in a trace of another kernel, nor in one that began after it.
        if outer is None or not around or trace not in outer.traces:
            trace.add(here.step)
