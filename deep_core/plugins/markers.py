"""The two decorators a plugin uses: `hookimpl` and `hookspec`. They set what pluggy reads, without importing pluggy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeVar, overload

__all__ = ["HookOrder", "HookPolicy", "PolicyName", "hookimpl", "hookspec"]

F = TypeVar("F", bound=Callable[..., Any])
PolicyName = Literal["collect", "first", "notify", "deny", "one"]


class HookOrder(NamedTuple):
    """What an author says of one implementation: which hook owner it is for, and whom it goes before and after."""

    of: str | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class HookPolicy(NamedTuple):
    """How a hook is called: what is made of its results and of an exception.

    Attributes:
        policy: `collect` (lists are joined; a plugin that raises is dropped), `first` (the first result that is not
            None), `notify` (results ignored, exceptions logged), `deny` (the strictest answer; an exception denies),
            `one` (at most one result a plugin).
        item: `"module:Class"` that every item must be an instance of (of `one`: a subclass), or None for no check.
        mapping: the hook returns a mapping of names to items instead of an iterable.
    """

    policy: PolicyName
    item: str | None = None
    mapping: bool = False


@overload
def hookimpl(function: F) -> F: ...
@overload
def hookimpl(
    *,
    of: str | None = None,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
    tryfirst: bool = False,
    trylast: bool = False,
    specname: str | None = None,
    wrapper: bool = False,
) -> Callable[[F], F]: ...
def hookimpl(
    function: F | None = None,
    *,
    of: str | None = None,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
    tryfirst: bool = False,
    trylast: bool = False,
    specname: str | None = None,
    wrapper: bool = False,
) -> F | Callable[[F], F]:
    """Mark a function as a plugin's implementation of a hook.

    Args:
        function: the function, when used without parentheses.
        of: the plugin that owns the hook. While that plugin is absent the implementation sleeps.
        before: plugins that this one goes before, in this hook. Absent names are ignored.
        after: plugins that this one goes after.
        tryfirst: go as early as the order allows.
        trylast: go as late as the order allows.
        specname: the hook, if the function has another name.
        wrapper: refused when the plugin is registered: hooks here are called one by one, never wrapped.
    """

    def mark(target: F) -> F:
        target.deep_impl = {  # type: ignore[attr-defined]
            "wrapper": wrapper,
            "hookwrapper": False,
            "optionalhook": of is not None,
            "tryfirst": tryfirst,
            "trylast": trylast,
            "specname": specname,
        }
        target.deep_order = HookOrder(of, tuple(before), tuple(after))  # type: ignore[attr-defined]
        return target

    return mark if function is None else mark(function)


def hookspec(
    *,
    policy: PolicyName,
    item: str | None = None,
    mapping: bool = False,
    warn_on_impl: Warning | None = None,
    warn_on_impl_args: dict[str, Warning] | None = None,
) -> Callable[[F], F]:
    """Declare a hook. The function's docstring is its documentation; its body is never run.

    Args:
        policy: see `HookPolicy`.
        item: see `HookPolicy`.
        mapping: see `HookPolicy`.
        warn_on_impl: a deprecation warning for plugins that still implement the hook.
        warn_on_impl_args: the same for single arguments.
    """

    def mark(target: F) -> F:
        target.deep_spec = {  # type: ignore[attr-defined]
            "firstresult": False,
            "historic": False,
            "warn_on_impl": warn_on_impl,
            "warn_on_impl_args": warn_on_impl_args,
        }
        target.deep_policy = HookPolicy(policy, item, mapping)  # type: ignore[attr-defined]
        return target

    return mark
