"""A tool of a universe: its definition, its facts, and how it is called without an agent."""

from __future__ import annotations

import asyncio
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import Tool

from deep_core import tool_facts

from .errors import InvalidArguments, ToolNameError
from .injection import Parameters, routine
from .middleware import Layer, Middleware, as_layers

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

    from deep_core import ToolFacts

__all__ = ["FunctionTool", "PreparedCall", "UniverseTool", "check_tool_name"]

PreparedCall: TypeAlias = Callable[[], Awaitable[Any]]
"""A call whose arguments are validated and whose context is injected; awaiting it executes the tool once."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PROBLEMS = 5  # how many problems of one call the model reads


def check_tool_name(name: object) -> str:
    """Return the name.

    Raises:
        ToolNameError: it does not match `^[a-zA-Z0-9_-]{1,64}$`.
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    shown = name if not isinstance(name, str) or len(name) <= 80 else f"{name[:77]}..."
    raise ToolNameError(f"{shown!r} is not a name for a tool: use 1 to 64 of a-z A-Z 0-9 _ -, with register(…, name=…)")


class UniverseTool(ABC):
    """One tool: what models see of it, what expressions select it by, and its execution.

    Attributes:
        definition: what drivers render.
        facts: its name, plugin and tags.
        middlewares: its own middlewares, outermost first.

    Raises:
        MiddlewareError: one of its middlewares is none, or has no name of its own and no uid.
    """

    def __init__(self, definition: ToolDefinition, *, middlewares: Iterable[Middleware | Layer] = ()) -> None:
        self.definition = definition
        self.facts: ToolFacts = tool_facts(definition)
        self.middlewares: list[Middleware | Layer] = list(middlewares)
        as_layers(self.middlewares)  # here, not in the first call

    @property
    def name(self) -> str:
        """The name that the model calls it by."""
        return self.definition.name

    @abstractmethod
    async def prepare(self, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> PreparedCall:
        """Validate the model's arguments, then inject the context. Executes nothing.

        Raises:
            InvalidArguments: the arguments do not fit the schema.
            MissingContextKey: the tool needs a key that the context lacks.
        """

    async def call(self, arguments: Mapping[str, Any], context: Mapping[str, Any] | None = None) -> Any:
        """Prepare and execute one call; return the tool's result.

        Raises:
            InvalidArguments: the arguments do not fit the schema.
            MissingContextKey: the tool needs a key that the context lacks.
            Exception: whatever the tool raises.
        """
        prepared = await self.prepare(arguments, context or {})
        return await prepared()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class FunctionTool(UniverseTool):
    """A Python function as a tool. Pydantic AI makes its schema and validates its arguments.

    A function that is not async runs in a thread of the event loop's default executor.

    Args:
        function: the function, a bound method or a callable object.
        name: its name for models; None for the function's own.
        description: its description; None for the function's docstring.
        tags: its tags; without any the tool has the tag `write`.
        middlewares: its own middlewares, outermost first.

    Raises:
        ToolNameError: the name fits no wire format.
        TypeError: a parameter cannot be a tool's: a `RunContext`, or a misplaced `Injected`.
        UserError: Pydantic AI can make no schema of a parameter.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Iterable[str] = (),
        middlewares: Iterable[Middleware | Layer] = (),
    ) -> None:
        if isinstance(tags, str):
            raise TypeError(f'tags are a collection of strings: write tags={{"{tags}"}}')
        own = routine(function).__name__
        name = check_tool_name(name if name is not None else type(function).__name__ if own == "__call__" else own)
        self.function = function
        self._parameters = Parameters.of(function)
        _refuse_run_context(name, self._parameters.hints)
        # A set has no order, and renders must be the same in every process.
        tags = sorted(tags) if isinstance(tags, set | frozenset) else list(tags)
        tool: Tool[None] = Tool(
            self._parameters.shown(),
            takes_ctx=False,
            name=name,
            description=description,
            metadata={"tags": list(dict.fromkeys(tags))},
        )
        self._validator = tool.function_schema.validator
        super().__init__(tool.tool_def, middlewares=middlewares)

    async def prepare(self, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> PreparedCall:
        """Validate the model's arguments, then inject the context. Executes nothing."""
        bound = self._parameters.arguments(self._validate(arguments), context)
        function = partial(self.function, *bound.args, **bound.kwargs)
        return partial(_execute, function, is_async=inspect.iscoroutinefunction(routine(self.function)))

    def _validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # `**kwargs` accepts any name, so the schema alone would let a model fill an injected parameter.
        shown: Mapping[str, Any] = self.definition.parameters_json_schema.get("properties", {})
        taken = sorted(name for name in self._parameters.keys if name in arguments and name not in shown)
        if taken:
            raise InvalidArguments(self.name, [f"{name}: unexpected argument" for name in taken])
        try:
            return self._validator.validate_python(dict(arguments))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            lines = [f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in problems[:_PROBLEMS]]
            if len(problems) > _PROBLEMS:
                lines.append(f"and {len(problems) - _PROBLEMS} more")
            raise InvalidArguments(self.name, lines) from error


def _refuse_run_context(name: str, hints: Mapping[str, Any]) -> None:
    from pydantic_ai.tools import RunContext

    for parameter, hint in hints.items():
        if RunContext in (hint, getattr(hint, "__origin__", None)):
            raise TypeError(
                f"tool {name!r}: {parameter} is a RunContext, and a universe has no run: "
                'use Annotated[TYPE, Injected("key")] and dispatch(…, context={"key": …})'
            )


async def _execute(function: Callable[[], Any], *, is_async: bool) -> Any:
    result = function() if is_async else await _in_thread(function)
    if inspect.isawaitable(result):  # also of a plain function that returns one
        result = await result
    return result.return_value if isinstance(result, ToolReturn) else result


async def _in_thread(function: Callable[[], Any]) -> Any:
    def run() -> tuple[Any, BaseException | None]:
        try:
            return function(), None
        except BaseException as error:  # noqa: BLE001
            return None, error

    # The error comes back as a value: a future that is given a StopIteration never finishes.
    value, error = await asyncio.to_thread(run)
    try:
        if error is not None:
            raise error
        return value
    finally:
        del error  # its traceback holds this frame
