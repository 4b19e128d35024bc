"""Each call's own context: containers are copied, handles are shared, nothing breaks a dispatch."""

from __future__ import annotations

import collections
import socket
import threading
import types
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from deep_universe.contexts import isolate
from hypothesis import given
from hypothesis import strategies as st


class Place(NamedTuple):
    name: str
    notes: list[str]


@dataclass
class Client:
    lock: Any = field(default_factory=threading.Lock)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.builds(Client),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Place, st.text(max_size=3), st.lists(st.text(max_size=3), max_size=2))
        | st.lists(inner, max_size=3).map(collections.deque)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(types.MappingProxyType)
        | st.sets(st.integers(), max_size=3)
        | st.builds(bytearray, st.binary(max_size=3))
    ),
    max_leaves=12,
)
MUTABLE = (list, dict, set, collections.deque, bytearray)


def inside(value: Any) -> list[Any]:
    """A value and everything in it."""
    if isinstance(value, dict | types.MappingProxyType):
        return [value, *(each for item in value.values() for each in inside(item))]
    if isinstance(value, list | tuple | collections.deque):
        return [value, *(each for item in value for each in inside(item))]
    return [value]


@given(VALUES)
def test_X10_a_copy_is_equal_and_shares_no_container_at_any_depth(value: Any) -> None:
    copied = isolate(value)
    assert copied == value
    assert type(copied) is type(value)
    originals = {id(each) for each in inside(value) if isinstance(each, MUTABLE)}
    assert not originals & {id(each) for each in inside(copied) if isinstance(each, MUTABLE)}
    assert {id(each) for each in inside(value) if isinstance(each, Client)} == {
        id(each) for each in inside(copied) if isinstance(each, Client)
    }


def test_X11_handles_are_shared_wherever_they_stand() -> None:
    with socket.socket() as connection:
        lock, client = threading.Lock(), Client()
        copied = isolate({"db": connection, "more": [lock, {"client": (client, [])}]})
        assert copied["db"] is connection
        assert copied["more"][0] is lock
        assert copied["more"][1]["client"][0] is client


def test_X11_a_container_that_holds_itself_or_stands_twice_does_so_in_the_copy() -> None:
    value: dict[str, Any] = {"twice": [1]}
    value["again"] = value["twice"]
    value["self"] = value
    value["pair"] = (value, value["twice"])
    copied = isolate(value)
    assert copied is not value
    assert copied["self"] is copied
    assert copied["again"] is copied["twice"] is copied["pair"][1]
    assert copied["twice"] is not value["twice"]
    assert copied["pair"][0] is copied


@pytest.mark.slow
def test_X11_a_context_deeper_than_the_stack_is_copied() -> None:
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]
    copied = isolate({"deep": deep})
    depth, inner = 0, copied["deep"]
    assert inner is not deep
    while inner:
        depth, inner = depth + 1, inner[0]
    assert depth == 20_000


def test_X11_tuples_deeper_than_the_stack_are_shared() -> None:
    deep: Any = []
    for _ in range(20_000):
        deep = (deep,)
    assert isolate({"deep": deep, "k": [1]})["k"] == [1]


class Stubborn(dict[str, Any]):
    def __copy__(self) -> Any:
        raise TypeError("no copies")


class Same(dict[str, Any]):
    def __copy__(self) -> Any:
        return self


class Loud(dict[str, Any]):
    """Has an attribute."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.name = "loud"


@pytest.mark.parametrize("kind", [Stubborn, Same])
def test_X11_a_class_that_refuses_copies_is_shared(kind: Any) -> None:
    inner = [1]
    value = kind(k=inner)
    assert isolate([value])[0] is value
    assert value["k"] is inner


def test_X10_derived_containers_stay_of_their_class() -> None:
    value = Loud(k=[1])
    copied = isolate(value)
    copied["k"].append(2)
    assert (value["k"], copied["k"], copied.name) == ([1], [1, 2], "loud")
    assert type(copied) is Loud
    by_default: Any = isolate(collections.defaultdict(list, a=[1]))
    assert by_default["b"] == []
    assert isinstance(isolate(collections.OrderedDict(a=[1])), collections.OrderedDict)


def test_X10_a_read_only_view_is_of_a_copy() -> None:
    held = {"k": [1]}
    copied = isolate({"view": types.MappingProxyType(held)})
    held["k"].append(2)
    assert copied["view"]["k"] == [1]
    assert isinstance(copied["view"], types.MappingProxyType)
