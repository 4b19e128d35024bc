"""Session state: slots, defaults, storing, migrating, what is kept of plugins that are gone, and subagents' share."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from deep_backends import local_backend
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, GetPydanticSchema
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.ui.vercel_ai import VercelAIAdapter

import deep_core.agent.run.session as run_session
from deep_core import DeepAgentDeps, Kernel, PluginError, PluginWarning, StateSlot, create_default_deps
from tests.plugins_by_hand import Site, agent_of, kernel_of, plugin, run, scripted, site
from tests.stubs import Call

__all__ = ["site"]


class City(BaseModel):
    name: str
    people: int = 0


@dataclass
class Counter:
    value: int = 0
    names: list[str] = field(default_factory=list[str])


CITIES: StateSlot[list[City]] = StateSlot("cities", list[City], list)


COUNTER: StateSlot[Counter] = StateSlot("counter", Counter, Counter)


SCRATCH: StateSlot[dict[str, int]] = StateSlot("scratch", dict[str, int], dict, persist=False)


SHARED: StateSlot[list[str]] = StateSlot("shared", list[str], list, child="share")


def kernel(*slots: StateSlot[Any]) -> Kernel:
    return kernel_of(plugin("owner", state=list(slots) or [CITIES, COUNTER, SCRATCH, SHARED]))


def deps_of(kernel: Kernel) -> DeepAgentDeps[Any]:
    return create_default_deps(kernel=kernel)


def stored(text: str) -> dict[str, Any]:
    return json.loads(text)["slots"]


# -- slots -----------------------------------------------------------------------------------------------------------


def test_a_slot_is_reached_by_itself_by_its_name_and_as_an_attribute() -> None:
    deps = deps_of(kernel())
    deps.state[CITIES].append(City(name="Oslo"))
    assert deps.state["cities"] is deps.state[CITIES] is deps.cities is deps.state.get("cities")
    deps.state["counter"] = Counter(7)
    assert deps.state[COUNTER].value == 7
    assert "cities" in deps.state
    assert CITIES in deps.state


def test_assigning_an_attribute_writes_the_slot() -> None:
    deps = deps_of(kernel())
    deps.cities = [City(name="Oslo")]
    assert deps.state[CITIES] == [City(name="Oslo")]
    assert "Oslo" in deps.dump()
    with pytest.raises(AttributeError, match=r"no state slot 'citis'.*'cities'.*goes in app="):
        deps.citis = ["Oslo"]


def test_a_default_is_made_once_a_session_and_never_shared() -> None:
    made: list[int] = []

    def default() -> list[int]:
        made.append(1)
        return []

    slot = StateSlot("once", list[int], default)
    owner = kernel(slot)
    one, two = deps_of(owner), deps_of(owner)
    one.state[slot].append(1)
    one.state["once"].append(2)
    assert (one.once, two.once, len(made)) == ([1, 2], [], 2)


def test_an_unknown_slot_is_an_error_with_a_suggestion() -> None:
    deps = deps_of(kernel())
    with pytest.raises(KeyError, match="Did you mean 'cities'"):
        deps.state["citis"]
    with pytest.raises(AttributeError, match="no state slot 'citis'"):
        _ = deps.citis
    assert deps.state.get("citis") is None
    assert deps.state.get("citis", 3) == 3
    assert not hasattr(deps, "citis")


def test_two_plugins_with_one_slot_name_are_both_named() -> None:
    with pytest.raises(PluginError) as caught:
        kernel_of(plugin("a", state=[CITIES]), plugin("b", state=[StateSlot("cities", int, int)]))
    assert all(text in str(caught.value) for text in ("'cities'", "  a (", "  b ("))


def test_one_slot_object_of_two_plugins_is_a_clash_too() -> None:
    with pytest.raises(PluginError, match="'cities'"):
        kernel_of(plugin("a", state=[CITIES]), plugin("b", state=[CITIES]))


def test_a_slot_cannot_hide_a_field_of_the_session() -> None:
    for name in ("backend", "state", "app", "depth", "session_id", "dump", "load"):
        with pytest.raises((PluginError, ValueError), match=name):
            kernel_of(plugin("a", state=[StateSlot(name, int, int)]))


def test_tools_reach_the_slots_of_their_session() -> None:
    toolset = FunctionToolset[DeepAgentDeps[Any]](id="count")

    @toolset.tool
    def count(ctx: RunContext[DeepAgentDeps[Any]]) -> int:
        ctx.deps.state[COUNTER].value += 1
        return ctx.deps.state[COUNTER].value

    agent = agent_of(plugin("count", state=[COUNTER], toolsets=[toolset]), model=scripted(*[Call("count", {})] * 3))
    deps = create_default_deps()
    run(agent, deps=deps)
    assert deps.counter.value == 3


# -- storing ---------------------------------------------------------------------------------------------------------


def test_what_is_dumped_is_loaded_typed() -> None:
    owner = kernel()
    deps = deps_of(owner)
    deps.state[CITIES] = [City(name="Oslo", people=7)]
    deps.state[COUNTER].names.append("a")
    deps.state[SCRATCH]["x"] = 1
    text = deps.dump()
    again = owner.load_deps(text, app="mine")
    assert (again.session_id, again.app, again.depth) == (deps.session_id, "mine", 0)
    assert again.cities == [City(name="Oslo", people=7)]
    assert again.counter == Counter(0, ["a"])
    assert again.scratch == {}
    assert "scratch" not in stored(text)
    assert DeepAgentDeps[Any].load(text, kernel=owner).cities == again.cities


@dataclass(frozen=True)
class Sight:
    size: int
    lines: list[int] = field(default_factory=list[int])


SIGHTS: StateSlot[dict[str, Sight]] = StateSlot("sights", dict[str, Sight], dict)


@given(st.lists(st.tuples(st.sampled_from(["set", "drop", "move", "all"]), st.sampled_from("abcd"), st.integers(0, 3))))
def test_a_dump_of_frozen_values_that_were_replaced_is_that_of_a_new_session(
    steps: list[tuple[str, str, int]],
) -> None:
    state = deps_of(kernel(SIGHTS)).state
    for step, name, size in steps:
        sights = state[SIGHTS]
        if step == "set":
            sights[name] = Sight(size, [size])
        elif step == "drop":
            sights.pop(name, None)
        elif step == "move" and name in sights:
            sights[name] = sights.pop(name)  # to the end, as the file that was seen last
        elif step == "all":
            state[SIGHTS] = {name: Sight(size)}
        dumped = state.dump()
        whole = {"version": 1, "data": {key: {"size": s.size, "lines": s.lines} for key, s in state[SIGHTS].items()}}
        assert json.dumps(dumped["sights"]) == json.dumps(whole)


def test_a_dump_is_stable_text() -> None:
    owner = kernel()
    deps = deps_of(owner)
    deps.state[COUNTER].value = 3
    deps.state[CITIES] = [City(name="Oslo")]
    assert deps.dump() == deps.dump() == owner.load_deps(deps.dump()).dump()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_value_survives(value: Any) -> None:
    slot = StateSlot[Any]("anything", lambda: Any, lambda: None)
    owner = kernel(slot)
    deps = deps_of(owner)
    deps.state[slot] = value
    assert owner.load_deps(deps.dump()).state[slot] == value


def test_a_type_may_be_given_as_a_function() -> None:
    later = StateSlot[Any]("later", lambda: list[City], list)
    by_schema = StateSlot[Any](
        "by_schema", Annotated[Any, GetPydanticSchema(lambda s, h: h.generate_schema(City))], City
    )  # type: ignore[arg-type]
    owner = kernel(later, by_schema)
    deps = deps_of(owner)
    deps.state[later] = [City(name="Oslo")]
    deps.state[by_schema] = City(name="Bergen")
    again = owner.load_deps(deps.dump())
    assert (again.later, again.by_schema) == ([City(name="Oslo")], City(name="Bergen"))


def test_an_empty_list_or_table_is_written_without_its_type() -> None:
    def missing() -> Any:
        raise ModuleNotFoundError("no library")

    slots = [StateSlot[Any]("items", missing, list), StateSlot[Any]("table", missing, dict)]
    session = deps_of(kernel(*slots))
    empty = {"items": {"version": 1, "data": []}, "table": {"version": 1, "data": {}}}
    assert (session.state["items"], session.state["table"], session.state.dump()) == ([], {}, empty)
    session.state["items"].append(1)
    with pytest.raises(ValueError, match="state slot 'items' cannot be stored: ModuleNotFoundError: no library"):
        session.state.dump()


def test_unclaimed_text_is_kept_verbatim() -> None:
    owner = kernel()
    deps = deps_of(owner)
    deps.state[CITIES] = [City(name="Oslo")]
    without = kernel_of(plugin("other", state=[COUNTER]))
    passing = without.load_deps(deps.dump())
    passing.state[COUNTER].value = 1
    with pytest.raises(KeyError):
        passing.state["cities"]
    kept = stored(passing.dump())
    assert kept["cities"] == stored(deps.dump())["cities"]
    assert owner.load_deps(passing.dump()).cities == [City(name="Oslo")]


@pytest.mark.parametrize("data", [{"name": 3}, [{"no_name": 1}], "text", 7, None, [[]]])
def test_what_no_longer_validates_is_kept_verbatim_and_reported(data: Any) -> None:
    owner = kernel()
    text = json.dumps({"format": 1, "session_id": "s", "slots": {"cities": {"version": 1, "data": data}}})
    deps = owner.load_deps(text)
    assert deps.cities == []
    assert stored(deps.dump())["cities"] == {"version": 1, "data": data}
    assert "cities" in deps.state.invalid
    assert owner.load_deps(deps.dump()).state.invalid == {}  # told when it is used, not before


def test_over_invalid_data_a_new_value_is_stored_and_the_old_is_not_lost() -> None:
    owner = kernel()
    text = json.dumps({"format": 1, "session_id": "s", "slots": {"cities": {"version": 1, "data": "OLD"}}})
    deps = owner.load_deps(text)
    assert deps.cities == []
    deps.state[CITIES] = [City(name="Oslo")]
    assert owner.load_deps(deps.dump()).cities == [City(name="Oslo")]
    assert "OLD" in owner.load_deps(deps.dump()).dump()


def test_assigning_before_reading_replaces_what_was_stored() -> None:
    owner = kernel()
    deps = deps_of(owner)
    deps.state[CITIES] = [City(name="old")]
    again = owner.load_deps(deps.dump())
    again.state[CITIES] = [City(name="new")]
    assert stored(again.dump())["cities"]["data"] == [{"name": "new", "people": 0}]


def test_an_older_version_is_migrated_and_an_unknown_one_kept() -> None:
    def migrate(data: Any, version: int) -> Any:
        if version > 2:
            raise ValueError("from the future")
        return [{"name": name} for name in data]

    now = StateSlot[Any]("cities", list[City], list, version=2, migrate=migrate)
    owner = kernel(now)

    def loaded(version: int, data: Any) -> DeepAgentDeps[Any]:
        slots = {"cities": {"version": version, "data": data}}
        return owner.load_deps(json.dumps({"format": 1, "session_id": "s", "slots": slots}))

    migrated = loaded(1, ["Oslo"])
    assert migrated.cities == [City(name="Oslo")]
    assert stored(migrated.dump())["cities"] == {"version": 2, "data": [{"name": "Oslo", "people": 0}]}
    future = loaded(3, {"a": 1})
    assert future.cities == []
    assert stored(future.dump())["cities"] == {"version": 3, "data": {"a": 1}}
    assert "future" in future.state.invalid["cities"]


@pytest.mark.parametrize("error", [ZeroDivisionError(), RuntimeError("no"), AttributeError("x"), IndexError()])
def test_a_migration_that_crashes_loses_nothing(error: Exception) -> None:
    def migrate(data: Any, version: int) -> Any:
        raise error

    owner = kernel(StateSlot[Any]("cities", list[City], list, version=2, migrate=migrate))
    slots = {"cities": {"version": 1, "data": [1]}}
    deps = owner.load_deps(json.dumps({"format": 1, "session_id": "s", "slots": slots}))
    assert deps.cities == []
    assert stored(deps.dump()) == slots


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "3", '"x"', "null", "{}", '{"slots": {}}', '{"format": 2, "slots": {}, "session_id": "s"}'),
        *('{"format": 1, "slots": [], "session_id": "s"}', '{"format": 1, "slots": {}}'),
        *(
            '{"format": 1, "slots": {"cities": 3}, "session_id": "s"}',
            '{"format": 1, "slots": {"cities": {}}, "session_id": "s"}',
        ),
        *(
            '{"format": 1, "slots": {}, "session_id": "s", "kept": 3}',
            '{"format": 1, "slots": {}, "session_id": "s", "kept": ["ab"]}',
            '{"format": 1, "slots": {}, "session_id": "s", "kept": {"cities": 3}}',
        ),
    ],
)
def test_what_is_no_dump_is_one_clear_error(text: str) -> None:
    with pytest.raises(ValueError, match="session dump"):
        kernel().load_deps(text)


def test_what_is_never_stored_is_not_taken_from_a_dump_either() -> None:
    owner = kernel()
    written = json.loads(deps_of(owner).dump())
    written["slots"]["scratch"] = {"version": 1, "data": {"planted": 1}}
    deps = owner.load_deps(json.dumps(written))
    assert deps.state[SCRATCH] == {}
    assert "scratch" not in json.loads(deps.dump())["slots"]


def test_a_value_that_cannot_be_written_names_its_slot() -> None:
    slot = StateSlot[Any]("socket", lambda: Any, lambda: None)
    deps = deps_of(kernel(slot))
    deps.state[slot] = object()
    with pytest.raises(Exception, match="socket"):
        deps.dump()


def test_a_dump_has_no_key_backend_or_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "key-of-the-host")
    deps = create_default_deps(backend=local_backend(tmp_path / "own"), app={"password": "of the application"})
    (tmp_path / "own").mkdir()
    run(agent_of(plugin("owner", state=[CITIES])), deps=deps)
    assert set(json.loads(deps.dump())) == {"format", "session_id", "slots"}
    assert not [word for word in ("key-of-the-host", "password", str(tmp_path)) if word in deps.dump()]


def test_unstored_slots_of_the_kernels_own_do_not_appear() -> None:
    deps = create_default_deps()
    run(agent_of(plugin("owner", state=[CITIES])), deps=deps)
    assert set(stored(deps.dump())) <= {"cities", "deep_approvals"}


# -- subagents and threads -------------------------------------------------------------------------------------------


def test_a_subagents_session_shares_what_is_shared_and_starts_the_rest_fresh() -> None:
    parent = create_default_deps(kernel=kernel(), app="mine")
    parent.state[SHARED].append("parent")
    parent.state[COUNTER].value = 5
    child = parent.clone_for_subagent()
    assert (child.app, child.session_id, child.depth, child.backend) == ("mine", parent.session_id, 1, parent.backend)
    assert child.shared is parent.shared
    assert child.counter == Counter()
    child.state[COUNTER].value = 9
    child.state[SHARED] = ["replaced"]
    grandchild = child.clone_for_subagent()
    grandchild.state[SHARED].append("grandchild")
    assert (parent.counter.value, parent.shared, grandchild.depth) == (5, ["replaced", "grandchild"], 2)


def test_a_pickled_session_has_the_slots_that_are_stored() -> None:
    owner = kernel()
    parent = create_default_deps(kernel=owner, app="mine")
    parent.state[CITIES].append(City(name="Oslo", people=7))
    parent.state[SCRATCH]["x"] = 1
    parent.state[SHARED].append("shared")
    loaded = pickle.loads(pickle.dumps(parent.clone_for_subagent()))
    assert (loaded.session_id, loaded.app, loaded.depth) == (parent.session_id, "mine", 1)
    assert loaded.state[SHARED] == ["shared"]
    loaded = pickle.loads(pickle.dumps(parent))
    assert loaded.state[CITIES] == [City(name="Oslo", people=7)]
    assert loaded.state[SCRATCH] == {}
    loaded.state[CITIES].clear()
    assert parent.state[CITIES] == [City(name="Oslo", people=7)]
    loaded.state.bind(owner)
    assert loaded.cities == []


def test_what_did_not_validate_survives_pickling() -> None:
    owner = kernel()
    text = json.dumps({"format": 1, "session_id": "s", "slots": {"cities": {"version": 1, "data": "no list"}}})
    loaded = pickle.loads(pickle.dumps(owner.load_deps(text)))
    assert stored(loaded.dump())["cities"]["data"] == "no list"


def test_what_is_shared_is_stored_once_with_the_parent() -> None:
    parent = create_default_deps(kernel=kernel())
    child = parent.clone_for_subagent()
    child.state[SHARED].append("from the child")
    assert stored(parent.dump())["shared"]["data"] == ["from the child"]
    assert "shared" not in stored(child.dump())


def test_a_shared_slot_that_was_loaded_is_seen_by_the_child() -> None:
    owner = kernel()
    deps = deps_of(owner)
    deps.state[SHARED].append("old")
    child = owner.load_deps(deps.dump()).clone_for_subagent()
    assert child.shared == ["old"]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    barrier = threading.Barrier(count)

    def body(number: int) -> None:
        barrier.wait()
        work(number)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_default_is_made_once_when_threads_race_for_it() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        owner = kernel()
        for _ in range(30):
            deps, seen = deps_of(owner), list[int]()
            children = [deps.clone_for_subagent() for _ in range(8)]
            in_threads(8, lambda i, deps=deps, seen=seen: seen.append(id(deps.state[COUNTER])))  # type: ignore[misc]
            in_threads(8, lambda i, children=children, seen=seen: seen.append(id(children[i].state[SHARED])))  # type: ignore[misc]
            assert len(set(seen)) == 2
    finally:
        sys.setswitchinterval(interval)


def test_dumping_while_threads_make_values_is_safe() -> None:
    slots = [StateSlot(f"slot{i}", list[int], list) for i in range(200)]
    deps = deps_of(kernel(*slots))

    def work(number: int) -> None:
        for slot in slots[number::4]:
            deps.state[slot].append(number)
            deps.dump()

    in_threads(4, work)
    assert len(stored(deps.dump())) == 200


# -- UI adapters -----------------------------------------------------------------------------------------------------


def sent_by_a_browser(**more: Any) -> bytes:
    message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    return json.dumps({"trigger": "submit-message", "id": "a", "messages": [message], **more}).encode()


def test_a_ui_adapter_runs_the_agent_and_leaves_the_sessions_state() -> None:
    owner = kernel()
    deps = deps_of(owner)
    deps.state[CITIES].append(City(name="Oslo"))
    adapter = VercelAIAdapter(owner.create_agent(scripted()), VercelAIAdapter.build_run_input(sent_by_a_browser()))

    async def stream() -> list[str]:
        return [event.type async for event in adapter.run_stream(deps=deps)]

    kinds = asyncio.run(stream())
    assert "text-delta" in kinds
    assert "error" not in kinds
    assert deps.cities == [City(name="Oslo")]


def test_what_a_client_sends_as_state_is_not_the_sessions_and_that_is_said() -> None:
    deps = deps_of(kernel())
    deps.state[CITIES].append(City(name="Oslo"))
    run_session._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with pytest.warns(PluginWarning, match=r"deps\.state is ignored.*deps\.state\[SLOT\] = .*app="):
        deps.state = {"cities": []}  # type: ignore[assignment]
    assert deps.cities == [City(name="Oslo")]


def test_it_is_said_once_in_a_process_under_any_filter() -> None:
    run_session._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    sessions = [deps_of(kernel()) for _ in range(3)]
    with pytest.warns(PluginWarning) as found:  # records each warning, as a filter `always` does
        assert [setattr(deps, "state", {"number": 1}) for deps in sessions] == [None, None, None]
    assert len(found) == 1


@pytest.mark.parametrize("wrong", [None, [], "state"])
def test_a_state_of_another_type_is_an_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"deps\.state is a SessionState, not"):
        deps_of(kernel()).state = wrong
    with pytest.raises(TypeError, match=r"deps\.state is a SessionState, not"):
        DeepAgentDeps(state=wrong)


def test_a_session_is_not_made_of_a_mapping() -> None:
    with pytest.raises(TypeError, match=r"deps\.state is a SessionState, not dict"):
        DeepAgentDeps(state={})  # type: ignore[arg-type]


# -- looking at a session makes no kernel ------------------------------------------------------------------------------


def look_at_names(deps: Any) -> Any:
    return list(deps.state.names()), list(deps.state), "todos" in deps.state, CITIES in deps.state


def pickle_it(deps: Any) -> Any:
    return pickle.loads(pickle.dumps(deps))


def copy_it(deps: Any) -> Any:
    return copy.copy(deps), copy.copy(deps.state), replace(deps, app=1), deps.clone_for_subagent()


@pytest.mark.parametrize("look", [look_at_names, repr, copy_it, pickle_it, lambda deps: deps == deps, vars])
def test_looking_at_a_session_makes_no_kernel(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_core.plugins import kernel as module

    monkeypatch.setattr(module, "_default", None)
    look(create_default_deps())
    look(DeepAgentDeps.load(json.dumps({"format": 1, "session_id": "a", "slots": {}})))
    assert module._default is None


def test_reading_a_slot_by_name_makes_the_default_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_core.plugins import kernel as module

    made = kernel_of(plugin("notes", state=[StateSlot("remarks", list[str], list)]))
    monkeypatch.setattr(module, "_default", made)
    deps = create_default_deps()
    assert "remarks" not in deps.state
    assert deps.state["remarks"] == []
    assert "remarks" in deps.state


# -- names that are taken ----------------------------------------------------------------------------------------------

RESERVED = """
from deep_core import StateSlot, hookimpl

@hookimpl
def deep_state():
    return [StateSlot("{name}", dict[str, str], dict), StateSlot("fine", int, int)]

@hookimpl
def deep_session_methods():
    return {{"well": print}}
"""


@pytest.mark.parametrize("name", ["deep_runs", "deep_approvals", "deep_live", "deep_anything"])
def test_a_slot_that_takes_a_name_of_the_kernel_fails_its_plugin_alone(site: Site, name: str) -> None:
    site.install("greedy", RESERVED.format(name=name))
    site.install("modest", RESERVED.format(name="mine").replace('"fine"', '"other"').replace("well", "better"))
    with pytest.warns(PluginWarning, match=rf"plugin greedy .*state slot '{name}': names that begin with deep_ are"):
        kernel = Kernel()
    assert kernel.plugins["greedy"].status == "failed"
    assert set(kernel.slots) == {"mine", "other"}
    assert set(kernel.session_methods) == {"better"}
    assert run(kernel.create_agent(scripted()), deps=create_default_deps(kernel=kernel)).output == "done"


def test_a_slot_of_a_plugin_given_by_hand_that_takes_a_name_of_the_kernel_raises() -> None:
    with pytest.raises(PluginError, match="names that begin with deep_ are the kernel's own; rename it"):
        kernel_of(plugin("greedy", state=[StateSlot("deep_runs", int, int)]))
