"""The one list of `create_deep_agent`'s parameters: complete, and everything follows from it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from deep_core import Kernel, create_deep_agent
from deep_core.parameters import PARAMETERS, RESERVED_NAMES, SESSION, AllParameters, Fixed, Inherited, Narrowed, Own

OURS = {
    *("history_processors", "backend", "strict", "tool_filter", "plugins", "approvers", "native_tools", "config"),
    *("depth", "innermost", "interrupt_on"),
}
"""Parameters that `pydantic_ai.Agent` does not have."""


def test_the_list_has_every_parameter_of_the_installed_pydantic_ai() -> None:
    installed = set(inspect.signature(Agent.__init__).parameters) - {"self", "model", "deps_type"}
    assert installed == PARAMETERS - OURS


def test_a_parameter_is_in_one_class_that_says_what_a_subagent_has_of_it() -> None:
    names = [name for kind in (Own, Inherited, Narrowed, Fixed) for name in kind.__annotations__]
    assert sorted([*names, "output_type", "interrupt_on"]) == sorted(PARAMETERS)


def test_every_parameter_says_what_it_does() -> None:
    source = Path(inspect.getfile(AllParameters)).read_text(encoding="utf-8").splitlines()
    for name in PARAMETERS:
        (number,) = [number for number, line in enumerate(source) if line.startswith(f"    {name}: ")]
        assert source[number + 1].startswith('    """'), name


def test_no_plugin_can_have_the_name_of_a_parameter() -> None:
    assert {"model", "kernel", *SESSION, *PARAMETERS} == RESERVED_NAMES


@pytest.mark.parametrize("make", [create_deep_agent, Kernel.create_agent], ids=lambda make: make.__qualname__)
def test_a_parameter_that_only_a_newer_pydantic_ai_has_is_handed_through(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deep_core.agent import assemble, spec

    seen: dict[str, Any] = {}

    class Newer(Agent[Any, Any]):
        def __init__(self, *args: Any, patience: int = 0, **kwargs: Any) -> None:
            seen["patience"] = patience
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(assemble, "Agent", Newer)
    for name in ("PASSED_ON", "KEYWORDS"):
        monkeypatch.setattr(spec, name, getattr(spec, name) | {"patience"})
    monkeypatch.setattr(assemble, "PASSED_ON", spec.PASSED_ON)
    with Kernel(discover=False) as kernel:
        if make is create_deep_agent:
            make("test", kernel=kernel, patience=3)
        else:
            make(kernel, "test", patience=3)
    assert seen == {"patience": 3}
