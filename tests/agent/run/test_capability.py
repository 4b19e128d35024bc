"""Prompt sections: where they stand, what they need, and what happens when one fails."""

from __future__ import annotations

from typing import Any

import pytest

from deep_core import PluginError, PromptSection
from deep_core.plugin_api import live_text
from tests.plugins_by_hand import Tools, agent_of, kernel_of, plugin, run, scripted
from tests.stubs import Call, ScriptedModel


def system(model: ScriptedModel, request: int = 0) -> str:
    return model.player.views[request].system


def live_parts(result: Any) -> list[str]:
    """The live texts of a conversation, in their frames."""
    texts = [live_text(part) for message in result.all_messages() for part in message.parts]
    return [live.text for live in texts if live is not None]


def static(name: str, text: str, **how: Any) -> PromptSection:
    return PromptSection.static(name, text, **how)


def test_order_then_plugin_then_name_as_given() -> None:
    model = scripted()
    plugins = [
        plugin("zebra", sections=[static("z_last", "Z200", order=200), static("z_first", "Z1", order=1)]),
        plugin("ant", sections=[static("b", "A-b"), static("a", "A-a")]),
        plugin("bee", sections=[static("c", "B-c")]),
    ]
    run(agent_of(*plugins, model=model))
    places = [system(model).index(text) for text in ("Z1", "A-b", "A-a", "B-c", "Z200")]
    assert places == sorted(places)


def test_the_order_of_plugins_is_the_users_to_change() -> None:
    model = scripted()
    plugins = [plugin("ant", sections=[static("a", "ANT")]), plugin("bee", sections=[static("b", "BEE")])]
    run(agent_of(*plugins, model=model, config={"plugins": {"ant": {"order": {"prompt_sections": 5}}}}))
    assert system(model).index("BEE") < system(model).index("ANT")


def test_the_same_prompt_in_every_kernel_whatever_the_order_of_giving() -> None:
    made = set()
    for turn in range(4):
        model = scripted()
        plugins = [plugin(name, sections=[static(name, name.upper())]) for name in ("a", "b", "c", "d")]
        run(agent_of(*plugins[turn:], *plugins[:turn], model=model))
        made.add(system(model))
    assert len(made) == 1


def test_the_applications_instructions_come_first() -> None:
    model = scripted()
    run(agent_of(plugin("ant", sections=[static("a", "ANT", order=-5)]), model=model, instructions="APP"))
    assert system(model).index("APP") < system(model).index("ANT")


def test_attribution_rides_on_the_names_of_instruction_parts() -> None:
    names: list[str] = []

    class Model(ScriptedModel):
        def _respond(self, messages: Any, info: Any) -> Any:
            names.extend(str(part.id) for part in info.model_request_parameters.instruction_parts)
            return super()._respond(messages, info)

    run(agent_of(plugin("ant", sections=[static("a", "ANT")]), model=Model(scripted().player)))
    assert "capability:deep:ant.a" in names


@pytest.mark.parametrize(
    ("needs", "config", "how", "there"),
    [
        (["read"], {}, {}, True),
        (["fs_read"], {"prefix": "fs"}, {}, True),
        (["read"], {"prefix": "fs"}, {}, True),
        (["read", "write"], {}, {}, True),
        (["read", "fly"], {}, {}, False),
        (["read"], {"tools": "~name:read"}, {}, False),
        (["read"], {}, {"tool_filter": "~name:read"}, False),
        (["write"], {}, {"tool_filter": "~name:read"}, True),
    ],
)
def test_a_section_is_left_out_where_a_tool_it_needs_is_not_offered(
    needs: list[str], config: dict[str, Any], how: dict[str, Any], there: bool
) -> None:
    model = scripted()
    sections = [static("how", "Read well.", needs=needs), PromptSection.live("now", lambda ctx: "LIVE", needs=needs)]
    files = plugin("files", toolsets=[Tools("read", "write").toolset], sections=sections)
    result = run(agent_of(files, model=model, config={"plugins": {"files": config}}, **how))
    assert ("Read well." in system(model)) is there
    assert len(live_parts(result)) == there


@pytest.mark.parametrize("locked", [False, True])
def test_a_tools_final_name_takes_the_place_of_its_mark(locked: bool) -> None:
    model = scripted()
    text = "Use {tool:read}, not {tool:fs_write}; {tool:unknown}, {read} and {tool:} stay."
    files = plugin("files", toolsets=[Tools("read", "write").toolset], sections=[static("how", text, locked=locked)])
    run(agent_of(files, model=model, config={"plugins": {"files": {"prefix": "fs"}}}))
    assert "Use fs_read, not fs_write;" in system(model)
    assert "{read}" in system(model)


def test_a_section_may_be_about_another_plugins_tool() -> None:
    model = scripted()
    files = plugin("files", toolsets=[Tools("read").toolset])
    hints = plugin("hints", sections=[static("how", "Call {tool:read} first.", needs=["read"])])
    run(agent_of(files, hints, model=model, config={"plugins": {"files": {"prefix": "fs"}}}))
    assert "Call fs_read first." in system(model)


def test_a_text_made_by_a_function_is_made_once_an_agent() -> None:
    made: list[int] = []

    def text() -> str:
        made.append(1)
        return f"text {len(made)}"

    model = scripted(Call("read", {}))
    files = plugin("files", toolsets=[Tools("read").toolset], sections=[PromptSection.static("how", text)])
    agent = agent_of(files, model=model)
    run(agent)
    run(agent)
    assert (len(made), {system(model, i) for i in range(3)}) == (1, {"text 1"})


@pytest.mark.parametrize("fails", [lambda: 1 / 0, lambda: None, lambda: 3])
def test_a_static_section_that_raises_is_left_out_and_recorded(fails: Any) -> None:
    model = scripted()
    sections = [PromptSection.static("broken", fails), static("fine", "FINE")]
    kernel = kernel_of(plugin("files", sections=sections))
    run(kernel.create_agent(model))
    assert system(model) == "FINE"
    (incident,) = kernel.incidents
    assert (incident.plugin, incident.where) == ("files", "section broken")


def test_strict_lets_a_static_sections_error_through() -> None:
    with pytest.raises(ZeroDivisionError):
        agent_of(plugin("files", sections=[PromptSection.static("broken", lambda: str(1 / 0))]), strict=True)


def test_two_sections_of_one_name_name_both_plugins() -> None:
    with pytest.raises(PluginError) as caught:
        agent_of(plugin("a", sections=[static("how", "A")]), plugin("b", sections=[static("how", "B")]))
    assert all(text in str(caught.value) for text in ("'how'", "  a (", "  b (", "enabled = false"))
