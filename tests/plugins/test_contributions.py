"""What plugins contribute checks itself when it is made."""

from __future__ import annotations

import pytest

from deep_core import Processor, PromptSection, StateSlot


def test_a_processor_checks_itself() -> None:
    with pytest.raises(TypeError, match="callable"):
        Processor("p", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="phase"):
        Processor("p", list, phase="shrink")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_error"):
        Processor("p", list, on_error="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "Two Words", "with.dot", "x" * 41, "9lives", "naïve", "a\n"])
def test_a_sections_name_is_checked_when_it_is_made(name: str) -> None:
    with pytest.raises(ValueError, match="section name"):
        PromptSection.static(name, "text")


@pytest.mark.parametrize("name", ["", "Todo", "a-b", "x" * 41, "ü"])
def test_a_slots_name_is_checked_when_it_is_made(name: str) -> None:
    with pytest.raises(ValueError, match="slot name"):
        StateSlot(name, int, int)


def test_a_section_is_static_or_live() -> None:
    with pytest.raises(ValueError, match="text or a function"):
        PromptSection("both", text="a", fn=lambda ctx: "b")
    with pytest.raises(ValueError, match="text or a function"):
        PromptSection("neither")
