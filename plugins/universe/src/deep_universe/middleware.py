"""Code around calls: layers, their identity, and the onion that they form."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from deep_core.plugin_api import as_expression, describe_error

from .calls import ToolCall
from .errors import MiddlewareError

if TYPE_CHECKING:
    from deep_core import ToolExpression, ToolFacts

__all__ = ["Layer", "Middleware", "Next", "as_layers", "layers_of", "run_layers"]

logger = logging.getLogger("deep.universe")

Next: TypeAlias = Callable[[ToolCall], Awaitable[Any]]
"""Runs what is inside: the next layer, in the end the tool. Returns the tool's result and raises its error."""

Middleware: TypeAlias = Callable[[ToolCall, Next], Any]
"""`async def audit(call, next)`: returns the result of the call, usually `await next(call)`.

It may change the result, pass on another call (`dataclasses.replace(call, arguments=…)`) or answer without `next`.
"""


class Layer:
    """A middleware in its place: which tools it surrounds, and what its failure means.

    Args:
        middleware: a function, or an object with an async `__call__`.
        scope: the tools that it surrounds, as an expression or its text; None for all.
        uid: its identity; None for the module and name of the function or class. Of the layers of a call that share a
            uid, the last one runs, in the place of the first.
        critical: whether its own failure fails the call. If not, a failure is logged, and the call goes on as if the
            layer were not there. Middleware that guards something is critical.

    Raises:
        MiddlewareError: it is not callable, or a class, or has no name of its own and no `uid`.
        ExpressionParseError: `scope` is a text that is not an expression.
    """

    def __init__(
        self,
        middleware: Middleware,
        *,
        scope: ToolExpression | str | None = None,
        uid: str | None = None,
        critical: bool = True,
    ) -> None:
        _check(middleware)
        self.middleware = middleware
        self.scope = None if scope is None else as_expression(scope)
        self.uid = uid or _name(middleware)
        self.critical = critical

    def surrounds(self, tool: ToolFacts) -> bool:
        """Whether the layer takes part in calls of the tool."""
        return self.scope is None or self.scope.matches(tool)

    async def run(self, call: ToolCall, inner: Next) -> Any:
        """Run the middleware around `inner`."""
        if self.critical:
            return await _run(self.middleware, call, inner)
        observed = _Observed(inner)
        try:
            return await _run(self.middleware, call, observed)
        except Exception as error:
            if not observed.started:
                self._log(error, "it was skipped")
                return await inner(call)
            inside = await observed.outcome(error)
            if inside.error is None:
                self._log(error, "the tool's result stands")
                return inside.result
            if inside.error is error:
                raise
            self._log(error, "the tool's own error stands")
            raise inside.error from None

    def _log(self, error: Exception, effect: str) -> None:
        # One line for the terminal; the traceback only at level DEBUG.
        shown = error if logger.isEnabledFor(logging.DEBUG) else None
        logger.warning("middleware %s failed: %s; %s", self.uid, describe_error(error), effect, exc_info=shown)

    def __repr__(self) -> str:
        return f"<Layer {self.uid}>"


def as_layers(middlewares: Iterable[Middleware | Layer]) -> list[Layer]:
    """Return layers as they are, and middlewares as critical layers without a scope.

    Raises:
        MiddlewareError: one of them cannot be a layer.
    """
    return [each if isinstance(each, Layer) else Layer(each) for each in middlewares]


def layers_of(tool: ToolFacts, layers: Iterable[Layer], own: Iterable[Middleware | Layer] = ()) -> list[Layer]:
    """Return the layers around calls of a tool, outermost first: global ones, then scoped ones, then the tool's own.

    Args:
        tool: the facts about the tool.
        layers: those of the universe or agent, in the order in which they were added.
        own: those of the tool itself.
    """
    around = [layer for layer in layers if layer.surrounds(tool)]
    ordered = [
        *(layer for layer in around if layer.scope is None),
        *(layer for layer in around if layer.scope is not None),
        *(layer for layer in as_layers(own) if layer.surrounds(tool)),
    ]
    return list({layer.uid: layer for layer in ordered}.values())  # a dict keeps the place of the first


async def run_layers(layers: Sequence[Layer], call: ToolCall, execute: Next) -> Any:
    """Run a call inside its layers, the first one outermost."""
    inner = execute
    for layer in reversed(layers):
        inner = partial(layer.run, inner=inner)
    return await inner(call)


async def _run(middleware: Middleware, call: ToolCall, inner: Next) -> Any:
    result = middleware(call, inner)
    return await result if inspect.isawaitable(result) else result


@dataclass(frozen=True)
class _Outcome:
    result: Any = None
    error: BaseException | None = None


class _Observed:
    """Runs what is inside, and remembers what came of it, so that nothing runs a second time."""

    def __init__(self, inner: Next) -> None:
        self._inner = inner
        self._last: asyncio.Future[_Outcome] | None = None

    @property
    def started(self) -> bool:
        return self._last is not None

    async def __call__(self, call: ToolCall) -> Any:
        self._last = last = asyncio.get_running_loop().create_future()
        outcome = _Outcome()
        try:
            result = await self._inner(call)
            outcome = _Outcome(result)
        except BaseException as error:
            outcome = _Outcome(error=error)
            raise
        else:
            return result
        finally:
            if not last.done():
                last.set_result(outcome)

    async def outcome(self, failure: Exception) -> _Outcome:
        """Return what came of the last run; the failure, if the middleware canceled it. Waits if it still runs."""
        assert self._last is not None  # noqa: S101
        outcome = await self._last
        return _Outcome(error=failure) if isinstance(outcome.error, asyncio.CancelledError) else outcome


def _check(middleware: object) -> None:
    if isinstance(middleware, type):
        raise MiddlewareError(
            f"middleware {middleware.__name__} is a class: give an instance, {middleware.__name__}(…)"
        )
    if not callable(middleware):
        raise MiddlewareError(f"a middleware is an async function of (call, next), not {type(middleware).__name__}")


def _name(middleware: object) -> str:
    """Return the module and name of a function, or of an object's class: equal in every process."""
    named: Any = middleware if inspect.isroutine(middleware) else type(middleware)
    name = f"{named.__module__}.{named.__qualname__}"
    # Each closure of one factory has this name, and one would silently replace the other.
    if isinstance(middleware, partial) or "<locals>" in name or "<lambda>" in name:
        raise MiddlewareError(
            f"middleware {name} has no name of its own: give it one, use(middleware, uid=…) or Layer(middleware, uid=…)"
        )
    return name
