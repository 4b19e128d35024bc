"""The parameters of `create_deep_agent`: the typed and the short way, and what a caller did wrong."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import FunctionToolset

from deep_core import ConfigError, Kernel, PluginError, PluginOptions, Without
from tests.agent.test_assemble import Skills, SkillsOptions, other
from tests.plugins_by_hand import kernel_of, run, scripted


def shown(kernel: Kernel, **how: Any) -> list[str]:
    model = scripted()
    run(kernel.create_agent(model, **how))
    return sorted(model.player.views[0].tools)


def test_the_typed_way_and_the_short_way_are_one() -> None:
    skills = Skills()
    kernel = kernel_of(skills.plugin, other())
    ways: list[dict[str, Any]] = [
        {"plugins": [SkillsOptions(directories=["./s"]), Without("todo")]},
        {"skills": {"directories": ["./s"]}, "todo": False},
        {"skills": SkillsOptions(directories=["./s"]), "include_todo": False},
        {"config": {"plugins": {"skills": {"options": {"directories": ["./s"]}}, "todo": {"enabled": False}}}},
    ]
    for way in ways:
        assert shown(kernel, **way) == ["load_skill"]
    assert skills.seen == [SkillsOptions(directories=["./s"])] * len(ways)


def test_true_and_include_true_and_nothing_are_the_defaults() -> None:
    skills = Skills()
    kernel = kernel_of(skills.plugin, other())
    for way in ({}, {"skills": True}, {"include_skills": True}, {"skills": {}}):
        assert shown(kernel, **way) == ["load_skill", "write_todos"]
    assert skills.seen == [SkillsOptions()] * 4


def test_leaving_one_out_of_an_agent_leaves_it_in_the_kernel() -> None:
    kernel = kernel_of(Skills().plugin, other())
    assert shown(kernel, todo=False) == ["load_skill"]
    assert shown(kernel) == ["load_skill", "write_todos"]


def test_options_of_code_go_over_those_of_the_configuration_key_by_key() -> None:
    skills = Skills()
    kernel = kernel_of(skills.plugin, config={"plugins": {"skills": {"options": {"limit": 7, "directories": ["a"]}}}})
    kernel.create_agent(scripted(), skills={"limit": 9})
    kernel.create_agent(scripted(), plugins=[SkillsOptions(limit=5)])
    assert skills.seen == [SkillsOptions(limit=9, directories=["a"]), SkillsOptions(limit=5, directories=["a"])]


@pytest.mark.parametrize(
    ("keyword", "near"),
    [
        ("skils", "skills"),
        ("interupt_on", "interrupt_on"),
        ("include_tood", "include_todo"),
        ("instruction", "instructions"),
    ],
)
def test_an_unknown_keyword_is_an_error_with_a_suggestion(keyword: str, near: str) -> None:
    with pytest.raises(TypeError, match=rf"{keyword}.*Did you mean '{near}'"):
        kernel_of(Skills().plugin, other()).create_agent(scripted(), **{keyword: {}})


@pytest.mark.parametrize("keyword", ["deps_type", "deps", "app"])
def test_what_belongs_to_the_session_gets_an_error_that_says_where_it_goes(keyword: str) -> None:
    with pytest.raises(TypeError, match=rf"takes no {keyword}: .*create_default_deps\(app=…\)"):
        kernel_of().create_agent(scripted(), **{keyword: dict})


@pytest.mark.parametrize(
    "keyword", ["tools", "toolsets", "history_processors", "capabilities", "plugins", "approvers", "native_tools"]
)
@pytest.mark.parametrize("value", ["todo", SkillsOptions(), FunctionToolset(), (name for name in ["todo"]), print])
def test_a_list_is_not_one_thing_alone(keyword: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"{keyword}= takes a list, not .*{keyword}=\[…\]"):
        kernel_of(other()).create_agent(scripted(), **{keyword: value})


def test_a_list_sets_the_option_that_the_plugin_says() -> None:
    kernel = kernel_of(Skills().plugin)
    with pytest.raises(
        ConfigError, match=r"plugins\.skills\.options\.a list: unknown option. Known: directories, limit"
    ):
        kernel.create_agent(scripted(), skills=["a"])


@pytest.mark.parametrize("value", [3, "x", None])
def test_a_plugins_keyword_takes_options_or_a_bool(value: Any) -> None:
    with pytest.raises(TypeError, match="skills="):
        kernel_of(Skills().plugin).create_agent(scripted(), skills=value)
    with pytest.raises(TypeError, match="include_skills"):
        kernel_of(Skills().plugin).create_agent(scripted(), include_skills=value)


def test_wrong_options_are_one_clear_error() -> None:
    kernel = kernel_of(Skills().plugin)
    with pytest.raises(ConfigError, match=r"plugins\.skills\.options\.limt.*Did you mean 'limit'"):
        kernel.create_agent(scripted(), skills={"limt": 3})
    with pytest.raises(ConfigError, match=r"code: plugins\.skills\.options\.limit"):
        kernel.create_agent(scripted(), skills={"limit": "many"})


def test_plugins_takes_options_and_without_only() -> None:
    kernel = kernel_of(Skills().plugin)
    for wrong in (Skills(), "skills", SkillsOptions, Without):
        with pytest.raises(TypeError, match="options instances"):
            kernel.create_agent(scripted(), plugins=[wrong])
    with pytest.raises(PluginError, match="Did you mean 'skills'"):
        kernel.create_agent(scripted(), plugins=[Without("skils")])

    class Strange(PluginOptions):
        pass

    with pytest.raises(PluginError, match=r"Strange.*no active plugin"):
        kernel.create_agent(scripted(), plugins=[Strange()])
