"""A plugin's two decorators, `hookimpl` and `hookspec`. They set what pluggy reads, and do not import pluggy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])
PolicyName = Literal["collect", "first", "notify", "deny", "one"]


class HookOrder(NamedTuple):
    """An author's wishes for one implementation: its hook's owner, and the plugins that it precedes and follows."""

    of: str | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class HookPolicy(NamedTuple):
    """How the kernel calls a hook, and what it does with results and exceptions.

    Attributes:
        policy: `collect` (lists are joined; a plugin that raises is dropped), `first` (the first result that is not
            None), `notify` (results ignored, exceptions logged), `deny` (the strictest answer; an exception denies),
            `one` (at most one result a plugin).
        item: `"module:Class"`; every item must be an instance of it (with `one`: a subclass). None checks nothing.
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
        of: the plugin that owns the hook. Without that plugin the implementation is dormant.
        before: plugins that this one precedes in this hook. Absent plugins are ignored.
        after: plugins that this one follows.
        tryfirst: go as early as the order allows.
        trylast: go as late as the order allows.
        specname: the hook, if the function has another name.
        wrapper: not supported: the kernel calls implementations one by one and refuses the plugin.
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
    """Declare a hook. The function's docstring documents it; its body never runs.

    Args:
        policy: see `HookPolicy`.
        item: see `HookPolicy`.
        mapping: see `HookPolicy`.
        warn_on_impl: a deprecation warning for plugins that still implement the hook.
        warn_on_impl_args: the same for an argument, by its name.
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
