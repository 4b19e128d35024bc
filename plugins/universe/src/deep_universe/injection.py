"""Parameters that the application fills from the context of a call, and that no model sees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NoReturn, cast, get_args, get_origin, get_type_hints

from .errors import MissingContextKey

__all__ = ["Injected", "Parameters", "routine"]


@dataclass(frozen=True)
class Injected:
    """Marks a parameter that comes from the context: `user_id: Annotated[str, Injected("uid")]`.

    The parameter is in no schema, and a call that names it is refused. Its value is passed on unchanged: handles of
    databases need no schema. If the context has no such key, the parameter's default applies; without a default the
    call fails with `MISSING_CONTEXT_KEY`.

    Attributes:
        key: the key in the context.

    Raises:
        TypeError: the key is not a string, or the mark stands inside another type, as in `list[Annotated[…]]`.
    """

    key: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or not self.key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Injected takes a key of the context, a non-empty string, not {self.key!r}")

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> NoReturn:
        # `Parameters` removes marked parameters. A mark that pydantic meets would be shown to the model.
        raise TypeError(
            f"Injected({self.key!r}) marks a whole parameter: write Annotated[TYPE, Injected({self.key!r})] outermost, "
            "not inside a union, a container or a model"
        )


@dataclass(frozen=True)
class Parameters:
    """A function's parameters: what the model sees of them, and how arguments get back to their places.

    Attributes:
        function: the function.
        signature: its signature.
        hints: the types of its parameters, and of `return`.
        keys: injected parameter -> key of the context.
    """

    function: Callable[..., Any]
    signature: inspect.Signature
    hints: Mapping[str, Any]
    keys: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Parameters:
        """Read a function's parameters.

        Raises:
            TypeError: it is a class, `*args` or `**kwargs` is injected, or a type cannot be read.
        """
        if isinstance(function, type):
            raise TypeError(f"{function.__name__} is a class, and a tool is a function: bind({function.__name__}(…))")
        named = routine(function)
        try:
            signature = inspect.signature(function)
        except ValueError as error:
            raise TypeError(
                f"{named.__qualname__} has no readable signature; write a function that calls it"
            ) from error
        try:
            hints = get_type_hints(named, include_extras=True)
        except NameError as error:
            raise TypeError(f"{named.__qualname__}: {error}; import it where the function stands") from error
        keys: dict[str, str] = {}
        for name, parameter in signature.parameters.items():
            mark = _mark(hints.get(name))
            if mark is None:
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(f"{named.__qualname__}: {parameter} cannot be injected; give it a parameter of its own")
            keys[name] = mark.key
        return cls(function, signature, hints, keys)

    def shown(self) -> Callable[..., Any]:
        """Return a function without body that has the shown parameters only, to make a schema of."""

        def shape(*args: Any, **kwargs: Any) -> None: ...

        source = routine(self.function)
        shape.__name__, shape.__qualname__ = source.__name__, source.__qualname__
        shape.__module__ = getattr(source, "__module__", __name__)  # the `__call__` of a class in C has none
        shape.__doc__ = source.__doc__
        kept = [parameter for name, parameter in self.signature.parameters.items() if name not in self.keys]
        shape.__signature__ = self.signature.replace(parameters=kept)  # pyright: ignore[reportFunctionMemberAccess]
        shape.__annotations__ = {name: hint for name, hint in self.hints.items() if name not in self.keys}
        return shape

    def arguments(self, validated: Mapping[str, Any], context: Mapping[str, Any]) -> inspect.BoundArguments:
        """Return the arguments of a call: validated ones, then those of the context.

        Raises:
            MissingContextKey: the context lacks a key whose parameter has no default.
        """
        values = dict(validated)
        for name, key in self.keys.items():
            if key in context:
                values[name] = context[key]
            elif self.signature.parameters[name].default is inspect.Parameter.empty:
                raise MissingContextKey(key, name)
            else:
                values[name] = self.signature.parameters[name].default
        placed: dict[str, Any] = {}
        extra = ""
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                extra = name
            elif name in values:
                placed[name] = values.pop(name)
                if parameter.kind is parameter.VAR_POSITIONAL:
                    placed[name] = tuple(placed[name])
        if extra:
            placed[extra] = values
        return inspect.BoundArguments(self.signature, placed)  # pyright: ignore[reportArgumentType]


def routine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with name, types and docstring: inside a partial or a cache, or an object's `__call__`."""
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    if inspect.isroutine(function):
        return function
    inside = inspect.unwrap(function)  # `functools.cache` makes an object
    return inside if inspect.isroutine(inside) else type(function).__call__


def _mark(hint: object) -> Injected | None:
    if get_origin(hint) is not Annotated:
        return None
    marks = [note for note in get_args(hint)[1:] if isinstance(note, Injected)]
    if len(marks) > 1:
        raise TypeError(f"a parameter is injected from one key, not from {' and '.join(mark.key for mark in marks)}")
    return marks[0] if marks else None
