"""Execute the calls in a model's answer: one result for each, in order, whatever goes wrong."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from deep_core import ToolExpression
from deep_core.plugin_api import describe_error, error_message, suggest

from .calls import ErrorCode, InvalidCall, ToolCall, ToolResult
from .driver import ToolDriver
from .errors import DriverNotFoundError
from .execution import Job, clip, failed, run_all
from .middleware import Layer, layers_of
from .negotiation import best, driver_named, scores_of

if TYPE_CHECKING:
    from .tools import UniverseTool

__all__ = ["ToolSource", "dispatch"]

logger = logging.getLogger("deep.universe")

_SUGGEST_AMONG: Final = 200  # tools; the nearest of thousands of names would cost more than the calls


class ToolSource(Protocol):
    """What `dispatch` needs of a universe."""

    @property
    def drivers(self) -> Sequence[ToolDriver]:
        """The drivers, in the order of registration."""
        ...

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers around calls of all its tools, in the order of registration."""
        ...

    @property
    def tools(self) -> Sequence[UniverseTool]:
        """All tools."""
        ...

    def get(self, name: str) -> UniverseTool | None:
        """Return the tool of this name, or None."""
        ...


async def dispatch(
    source: ToolSource,
    response: object,
    *,
    driver: str | ToolDriver | None = None,
    tool_filter: ToolExpression | None = None,
    context: Mapping[str, Any] | None = None,
    max_parallel: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - of each call, not of this function
) -> list[ToolResult]:
    """Execute the calls in a model's answer, and return one result for each, in the order of the calls.

    Whatever is wrong with the response, a call or a tool is the `error` of a result, with an `ErrorCode` in
    `meta["error_code"]`. Nothing runs before all calls are parsed and filtered. A reply without calls is `[]`.

    Args:
        source: the tools, drivers and layers: a `Universe`.
        response: what the model answered, as a dict, a text, an SDK's object or a Pydantic AI `ModelResponse`.
        driver: the format, as the name of a driver or a driver; None to recognize it.
        tool_filter: the tools that may run; None for all.
        context: values for injected parameters and middlewares. Each call gets its own copy of its containers; other
            objects are shared.
        max_parallel: how many calls run at once; None for all.
        timeout: the time of each call, in seconds; None for no limit. A function that is not async goes on in its
            thread; its result is dropped.

    Raises:
        TypeError: `tool_filter` is not a tool expression, `context` not a mapping, or `driver` neither a driver nor a
            name; before anything runs.
        ValueError: `max_parallel` or `timeout` is not positive; before anything runs.
        asyncio.CancelledError: the task was canceled, or a tool was; the calls that still ran are canceled first.
    """
    given = _check(driver, tool_filter, context, max_parallel, timeout)
    calls = _parse(source.drivers, response, driver)
    if isinstance(calls, ToolResult):
        return [calls]
    results: dict[int, ToolResult] = {}

    async def run(position: int, job: Job) -> None:
        results[position] = await job.run(given, timeout)

    jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
    for position, admitted in enumerate(_admit(source, calls, tool_filter)):
        if isinstance(admitted, Job):
            jobs.append(partial(run, position, admitted))
        else:
            results[position] = admitted
    await run_all(jobs, max_parallel)
    return [results[position] for position in range(len(calls))]


def _check(
    driver: object, tool_filter: object, context: object, max_parallel: int | None, timeout: float | None
) -> Mapping[str, Any]:
    """Check what the application passed, before anything runs; return the context."""
    if not isinstance(driver, str | ToolDriver | None):
        raise TypeError(f"driver is a driver or its name, not {type(driver).__name__}")
    if tool_filter is not None and not isinstance(tool_filter, ToolExpression):
        raise TypeError(
            f"tool_filter is a tool expression, not {type(tool_filter).__name__}: write ToolName(…), Tag(…), or "
            'ToolExpression.parse("…")'
        )
    if context is not None and not isinstance(context, Mapping):
        raise TypeError(f"context is a mapping of names to values, not {type(context).__name__}")
    if max_parallel is not None and max_parallel < 1:
        raise ValueError(f"max_parallel is at least 1, or None for no limit; not {max_parallel}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout is a number of seconds above 0, or None for no limit; not {timeout}")
    return dict(cast("Mapping[str, Any]", context or {}))


# -- the response ------------------------------------------------------------------------------------------------------


def _parse(
    drivers: Sequence[ToolDriver], response: object, wanted: str | ToolDriver | None
) -> list[ToolCall | InvalidCall] | ToolResult:
    """Return the calls of a response, or the error of a response that no driver, or not the wanted one, can read."""
    driver = wanted
    try:
        if isinstance(driver, str):
            driver = driver_named(drivers, driver)
    except DriverNotFoundError as error:
        return failed(ErrorCode.DRIVER_NOT_FOUND, str(error))
    if driver is None and (driver := _detect(drivers, response)) is None:
        names = ", ".join(driver.name for driver in drivers) or "none"
        problem = f"no driver recognizes this response, {_describe(response)}. The drivers are: {names}"
        return failed(ErrorCode.PROTOCOL_DETECTION_FAILED, problem)
    try:
        return _checked(driver.parse(response))
    except Exception as error:  # a driver may be anyone's, and the response comes from outside
        logger.debug("driver %s cannot parse a response", driver.name, exc_info=error)
        said = error_message(error) if isinstance(error, ValueError) else describe_error(error)
        return failed(ErrorCode.PARSE_ERROR, f"the driver {driver.name!r} cannot read this response: {said}")


def _detect(drivers: Sequence[ToolDriver], response: object) -> ToolDriver | None:
    """Return the driver that recognizes the response best. One that breaks its contract does not take part."""
    scores: list[tuple[ToolDriver, int]] = []
    for driver in drivers:
        try:
            scores += scores_of([driver], lambda driver: driver.can_handle_response(response))
        except Exception as error:  # noqa: BLE001 - one driver must not stop the others
            logger.warning("driver %s failed: %s; it was left out", driver.name, describe_error(error))
    return best(scores)


def _checked(calls: Any) -> list[ToolCall | InvalidCall]:
    if not isinstance(calls, list) or not all(isinstance(call, ToolCall | InvalidCall) for call in calls):  # pyright: ignore[reportUnknownVariableType]
        raise TypeError("parse returned something other than a list of ToolCall and InvalidCall")
    return calls  # pyright: ignore[reportUnknownVariableType]


def _describe(response: object) -> str:
    kind = f"a value of type {type(response).__name__}"
    try:
        if isinstance(response, str):
            return "a text without tool calls" if response.strip() else "an empty text"
        if isinstance(response, Mapping):
            keys = ", ".join(map(str, islice(cast("Mapping[object, object]", response), 10)))
            return f"a mapping with the keys {clip(keys, 200)}" if keys else "an empty mapping"
    except Exception as error:  # noqa: BLE001 - an object may raise even where it is asked for its class
        return f"{kind} that cannot be read: {describe_error(error)}"
    return kind


# -- the calls ---------------------------------------------------------------------------------------------------------


def _admit(
    source: ToolSource, calls: Sequence[ToolCall | InvalidCall], tool_filter: ToolExpression | None
) -> list[Job | ToolResult]:
    """Return what to run for each call, or why it does not run. Nothing runs before all calls are decided."""
    layers: dict[str, Sequence[Layer]] = {}
    offered: list[str] | None = None
    admitted: list[Job | ToolResult] = []
    for call in calls:
        call = replace(call, id=call.id or f"call_{uuid.uuid4().hex}")
        if isinstance(call, InvalidCall):
            admitted.append(failed(call.code, call.problem, call))
            continue
        tool = source.get(call.name)
        if tool is None:
            if offered is None:
                offered = [t.name for t in source.tools if tool_filter is None or tool_filter.matches(t.facts)]
            admitted.append(failed(ErrorCode.TOOL_NOT_FOUND, _not_found(call.name, offered), call))
        elif tool_filter is not None and not tool_filter.matches(tool.facts):
            admitted.append(failed(ErrorCode.FILTER_DENIED, f"the tool {call.name!r} may not be called here", call))
        else:
            if tool.name not in layers:
                layers[tool.name] = layers_of(tool.facts, source.layers, tool.middlewares)
            admitted.append(Job(call, tool, layers[tool.name]))
    return admitted


def _not_found(name: str, offered: Collection[str]) -> str:
    hint = suggest(name, offered) if len(name) <= 64 and len(offered) <= _SUGGEST_AMONG else ""
    return f"there is no tool {clip(name, 80)!r}.{hint}"
