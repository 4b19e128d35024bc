"""An object's methods as tools."""

from __future__ import annotations

from typing import Any

import pytest
from deep_universe import DuplicateToolError, ToolNameError, Universe

pytestmark = pytest.mark.anyio


class Base:
    def close(self) -> str:
        """Close."""
        return "closed"


class Bank(Base):
    def __init__(self, name: str) -> None:
        self.name = name
        self.callback = lambda: None

    def open(self, account: str) -> str:
        """Open an account."""
        return f"{self.name}: {account}"

    async def close(self) -> str:
        """Close the bank."""
        return f"{self.name} closed"

    @staticmethod
    def rate() -> float:
        return 0.5

    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    @property
    def balance(self) -> int:
        raise AssertionError("a property was evaluated")

    def _p(self) -> None: ...

    limit = 3
    Nested = dict


def names(universe: Universe) -> list[str]:
    return [tool.name for tool in universe.tools]


def test_B1_excluded_methods_are_not_registered() -> None:
    universe = Universe()
    universe.bind(Bank("b"), prefix="bank_", exclude=["close"])
    assert names(universe) == ["bank_open", "bank_rate", "bank_kind"]
    with pytest.raises(TypeError, match=r'write exclude=\["close"\]'):
        universe.bind(Bank("b"), exclude="close")


async def audit(call: Any, next: Any) -> Any:
    return await next(call)


def test_B2_middlewares_reach_every_tool() -> None:
    universe = Universe()
    universe.bind(Bank("b"), middlewares=[audit])
    assert [tool.middlewares for tool in universe.tools] == [[audit]] * 4


def test_B3_an_unknown_name_in_exclude_is_ignored_with_a_warning() -> None:
    universe = Universe()
    with pytest.warns(UserWarning, match="exclude: Bank has no public method typo, zeal") as caught:
        universe.bind(Bank("b"), exclude=["zeal", "open", "typo"])
    assert caught[0].filename == __file__
    assert names(universe) == ["close", "rate", "kind"]


async def test_B4_prefix_and_tags_apply_and_private_methods_are_skipped() -> None:
    universe = Universe()
    universe.bind(Bank("b"), prefix="bank_", tags={"finance"})
    assert names(universe) == ["bank_close", "bank_open", "bank_rate", "bank_kind"]
    assert len(universe["finance"]) == 4
    opened = universe.get("bank_open")
    assert opened is not None
    assert opened.definition.description == "Open an account."
    with pytest.raises(TypeError, match=r'write tags=\{"finance"\}'):
        Universe().bind(Bank("b"), tags="finance")


async def test_B5_an_instance_with_arguments_binds() -> None:
    universe, bank = Universe(), Bank("mine")
    assert universe.bind(bank) is bank
    for name, arguments, result in [
        ("open", {"account": "a"}, "mine: a"),
        ("close", {}, "mine closed"),
        ("rate", {}, 0.5),
        ("kind", {}, "Bank"),
    ]:
        tool = universe.get(name)
        assert tool is not None
        assert await tool.call(arguments) == result


async def test_B5_a_class_can_be_decorated() -> None:
    universe = Universe()

    @universe.bind
    class Plain:
        def hello(self) -> str:
            return "hello"

    @universe.bind(prefix="other_", tags={"read"})
    class Other:
        def hello(self) -> str:
            return "other"

    assert Plain().hello() == "hello"
    assert Other().hello() == "other"
    assert names(universe) == ["hello", "other_hello"]
    with pytest.raises(TypeError, match=r"Bank needs arguments .*bind an instance, bind\(Bank\(…\)\)"):
        universe.bind(Bank)


def test_B6_no_property_is_evaluated() -> None:
    universe = Universe()
    universe.bind(Bank("b"))
    assert "balance" not in names(universe)


def test_all_methods_are_registered_or_none() -> None:
    universe = Universe()
    universe.register(lambda: 1, name="kind")
    with pytest.raises(DuplicateToolError, match="'kind'"):
        universe.bind(Bank("b"))
    with pytest.raises(ToolNameError):
        universe.bind(Bank("b"), prefix="not good ")
    assert names(universe) == ["kind"]
