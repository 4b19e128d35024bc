"""Which rules of a suite are collected: one that does not apply to a backend is no test of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite
from pytest_deep import BackendConformance

__all__ = ["exhaustive", "for_a_backend", "own_rules_only", "without"]

Suite = TypeVar("Suite", bound=type)
OPTIONAL = ("fresh_backend", "destructive_backend", "attach_backend", "destroy_environment")
"""Fixtures of Pydantic AI's suite; where one is not given, the rules that take it skip."""


def rules(suite: type) -> dict[str, Callable[..., object]]:
    """Its tests by name."""
    return {name: rule for name, rule in inspect.getmembers(suite, inspect.isfunction) if name.startswith("test_")}


def without(*names: str) -> Callable[[Suite], Suite]:
    """Decorate a suite to leave these rules out."""

    def leave_out(suite: Suite) -> Suite:
        _leave_out(suite, names)
        return suite

    return leave_out


def exhaustive(name: str) -> Callable[[Suite], Suite]:
    """Decorate a suite to have this rule only in `make test-nightly`."""

    def mark(suite: Suite) -> Suite:
        rule = getattr(suite, name)

        @pytest.mark.exhaustive
        @functools.wraps(rule)
        async def run(self: object, **fixtures: object) -> None:
            await rule(self, **fixtures)

        setattr(suite, name, run)
        return suite

    return mark


def for_a_backend(*, commands: bool) -> Callable[[Suite], Suite]:
    """Decorate a `WorkspaceBackendSuite` to leave out what a backend cannot, and what no fixture is given for."""

    def leave_out(suite: Suite) -> Suite:
        given = {name for part in suite.__mro__ if part is not WorkspaceBackendSuite for name in vars(part)}
        absent = set(OPTIONAL) - given
        for name, rule in rules(WorkspaceBackendSuite).items():
            of_commands = "_commands(" in inspect.getsource(rule)
            if (of_commands and not commands) or absent & set(inspect.signature(rule).parameters):
                _leave_out(suite, [name])
        return suite

    return leave_out


def own_rules_only(suite: Suite) -> Suite:
    """Decorate a `BackendConformance` to leave out what it has from Pydantic AI: plugins/backends runs that."""
    _leave_out(suite, rules(WorkspaceBackendSuite).keys() & rules(BackendConformance).keys())
    return suite


def _leave_out(suite: type, names: Iterable[str]) -> None:
    for name in names:
        setattr(suite, name, None)
