"""An `AgentConfig` is data: equal ones behave equally, also after a round trip, and none changes once it is made."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from deep_core import AgentConfig, Kernel
from deep_core.agent.policy.gates import leaves_of
from deep_core.agent.run.capability import DeepCapability
from deep_core.plugin_api import read_agent_config

CHANGED: list[dict[str, Any]] = [
    {},
    {"identity": {"name": "scout"}},
    {"prompt": {"system": "Hello {{x}}"}},
    {"prompt": {"system": "Hello {{x}}", "variables": {"x": {"deep": [1, {"er": []}]}}}},
    {"model": {"provider": "test", "model": "test", "temperature": 0.5}},
    {"tools_policy": {"allow_list": ["a"], "require_approval_by_default": True}},
    {"loop": {"max_iterations": 10}},
    {"loop": {"max_iterations": 1}},
    {"interrupt_on": {"a": True}},
    {"native_tools": ["web_search"], "approvers": [], "innermost": []},
]


def stored(config: AgentConfig) -> AgentConfig:
    return AgentConfig.model_validate_json(config.model_dump_json())


def keys_of(config: AgentConfig) -> Any:
    """What an agent with this configuration sets, and so what plugins honor."""
    agent = Kernel(discover=False).create_agent("test", config=config, tools=[lambda_tool])
    leaves = leaves_of(agent.root_capability)
    context = next(leaf for leaf in leaves if isinstance(leaf, DeepCapability)).plan.contributed.contexts["app"]
    return sorted(key for key in all_keys(AgentConfig) if context.sets(key)), context.config


def all_keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield path + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from all_keys(field.annotation, f"{path}{name}.")


def lambda_tool(a: str = "") -> str:
    """A tool."""
    return a


lambda_tool.__name__ = "a"


@pytest.mark.parametrize("data", CHANGED, ids=repr)
def test_a_configuration_that_was_written_and_read_back_is_the_same(data: dict[str, Any]) -> None:
    config = AgentConfig.model_validate(data)
    again = stored(config)
    assert again == config
    if not ({"loop"} & data.keys()):  # sessions honors it, and is not here
        assert keys_of(again) == keys_of(config)
    for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config)), config.model_copy(deep=True)):
        assert other == config


@pytest.mark.parametrize("name", AgentConfig.model_fields)
def test_each_section_with_its_defaults_written_out_sets_nothing(name: str) -> None:
    dumped = AgentConfig().model_dump(mode="json")
    written = AgentConfig.model_validate({name: dumped[name]})
    assert written == AgentConfig()
    assert keys_of(written) == keys_of(AgentConfig()) == ([], AgentConfig())


def test_what_a_file_writes_is_set_even_if_it_is_the_default() -> None:
    kernel = Kernel(discover=False, config={"agent": {"tools_policy": {"enabled": True}}})
    agent = kernel.create_agent("test")
    (deep,) = (leaf for leaf in leaves_of(agent.root_capability) if isinstance(leaf, DeepCapability))
    context = deep.plan.contributed.contexts["app"]
    assert context.sets("tools_policy")
    assert context.sets("tools_policy.enabled")
    assert not context.sets("tools_policy.max_parallel", "loop")


CHANGES: list[Callable[[AgentConfig], object]] = [
    lambda c: c.prompt.variables.update(x=2),
    lambda c: c.prompt.variables.pop("x"),
    lambda c: c.prompt.variables["x"]["deep"].append(1),  # type: ignore[index, call-overload, union-attr]
    lambda c: c.tools_policy.allow_list.append("execute"),  # type: ignore[union-attr]
    lambda c: c.tools_policy.allow_list.__iadd__(["execute"]),  # type: ignore[union-attr, operator]
    lambda c: c.tools_policy.allow_list.sort(),  # type: ignore[union-attr]
    lambda c: c.interrupt_on.update(a=False),  # type: ignore[union-attr]
    lambda c: c.interrupt_on.__ior__({"a": False}),  # type: ignore[union-attr, operator]
    lambda c: c.approvers.append("x"),
    lambda c: c.native_tools.extend(["x"]),
    lambda c: c.model.fallback.insert(0, "x"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_in_a_configuration_changes_in_place(change: Callable[[AgentConfig], object]) -> None:
    config = AgentConfig.model_validate(
        {
            "prompt": {"variables": {"x": {"deep": []}}},
            "tools_policy": {"allow_list": ["a"]},
            "interrupt_on": {"a": True},
        }
    )
    before = config.model_dump_json()
    with pytest.raises(TypeError, match="frozen"):
        change(config)
    assert config.model_dump_json() == before
    assert config.tools_policy.allow_list == ["a"]
    assert isinstance(config.tools_policy.allow_list, list)


UNSET: list[Callable[[], AgentConfig]] = [
    AgentConfig,
    lambda: read_agent_config(Kernel(discover=False).config),  # nothing is set, so nothing is validated
    lambda: AgentConfig.model_validate({"prompt": {"system": ""}, "model": "test"}),
]


@pytest.mark.parametrize("make", UNSET)
def test_nothing_in_the_defaults_changes_either(make: Callable[[], AgentConfig]) -> None:
    config = make()
    for change in (
        lambda: config.prompt.variables.update(x=1),
        lambda: config.model.fallback.append("x"),
        lambda: config.approvers.append("x"),
        lambda: config.interrupt_on.update(x=False),  # type: ignore[union-attr]
    ):
        with pytest.raises(TypeError, match="frozen"):
            change()


def test_a_configuration_that_sets_nothing_is_the_default() -> None:
    assert read_agent_config(Kernel(discover=False).config) == AgentConfig() == AgentConfig.model_validate({})


SECTIONS = [name for name, value in AgentConfig() if isinstance(value, BaseModel)]


@pytest.mark.parametrize("section", SECTIONS)
def test_a_default_section_is_what_its_class_makes(section: str) -> None:
    """The defaults are constructed without validation: they must be valid all the same."""
    default: BaseModel = getattr(AgentConfig(), section)
    again = type(default).model_validate_json(default.model_dump_json())
    assert type(default)() == default == again
