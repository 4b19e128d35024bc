"""Every capability of Pydantic AI's harness by configuration alone: the page's table is true, and none goes around the
policy. The oldest Pydantic AI of CI has the harness beside it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import DeferredToolRequests
from pydantic_ai.models.test import TestModel

from deep_core import Deny, create_default_deps
from plugins.capabilities.tests.harness_cases import PLUGIN, Case, agent_with, cases, table, written_table
from tests.agent.policy.test_gates import UNAPPROVED, gated
from tests.drawn import sample
from tests.plugins_by_hand import outcomes, pending, plugin, run, scripted
from tests.stubs import Call

harness: Any = pytest.importorskip(
    "pydantic_ai_harness", reason="needs pydantic-ai-harness: pip install 'pydantic-ai-harness[code-mode]==0.62.*'"
)
ROWS = [line.split(" | ") for line in written_table().splitlines()[2:]]
WORKING = [row[0].strip("| `") for row in ROWS if row[1] == "yes"]
WITH_TOOLS = [row[0].strip("| `") for row in ROWS if row[1] == "yes" and row[2].strip()]


ARGUMENTS: dict[str, dict[str, Any]] = {
    "ask_user_question": {
        "questions": [
            {
                "header": "Unit",
                "question": "Which unit?",
                "options": [{"label": "C", "description": "Celsius"}, {"label": "F", "description": "Fahrenheit"}],
            }
        ]
    }
}
"""Arguments of tools that check more than their schema says."""


class CallsTools(TestModel):
    """Calls these tools, each with arguments that fit its schema."""

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> Any:
        # It refuses native tools, which the researcher brings.
        return await super().request(messages, model_settings, replace(model_request_parameters, native_tools=[]))

    def gen_tool_args(self, tool_def: Any) -> Any:
        return ARGUMENTS.get(tool_def.name) or super().gen_tool_args(tool_def)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {case.each.use: case for case in cases(tmp_path_factory.mktemp("harness"))}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "skills").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_of_the_page_is_what_this_harness_does(found: dict[str, Case]) -> None:
    assert table([*found.values()]) == written_table(), (
        "write it: .venv-oldest/bin/python -m plugins.capabilities.tests.harness_cases"
    )
    assert len(WORKING) > 40


@pytest.mark.parametrize("use", sample(WITH_TOOLS, "FileSystem"))
def test_its_tools_are_this_plugins_and_ask_if_a_rule_says_so(use: str, found: dict[str, Case], folder: Path) -> None:
    case = found[use]
    assert case.explanation is not None
    tools = {tool.name for tool in case.explanation.tools if tool.plugin == PLUGIN}
    rule = " | ".join(f"name:{name}" for name in sorted(tools))
    kernel, agent, reason = agent_with(
        case.entry, rights=case.rights, model=CallsTools(call_tools=sorted(tools)), interrupt_on=rule
    )
    assert not reason
    asked = pending(run(agent, deps=create_default_deps(kernel=kernel)))
    assert {call.tool_name for call in asked.approvals} == tools
    assert {(asked.metadata[call.tool_call_id] or {}).get("plugin") for call in asked.approvals} == {PLUGIN}


@pytest.mark.parametrize("use", sample(WITH_TOOLS, "FileSystem"))
def test_its_tools_do_not_run_if_a_check_denies_them(use: str, found: dict[str, Case], folder: Path) -> None:
    case, seen = found[use], list[str]()

    def deny(call: Any) -> Any:
        seen.append(call.plugin)
        return Deny("no") if call.plugin == PLUGIN else None

    assert case.explanation is not None
    tools = sorted(tool.name for tool in case.explanation.tools if tool.plugin == PLUGIN)
    before = sorted(folder.rglob("*"))
    model = CallsTools(call_tools=tools)
    kernel, agent, _ = agent_with(case.entry, plugin("guard", check_call=deny), rights=case.rights, model=model)
    result = run(agent, deps=create_default_deps(kernel=kernel))
    assert sorted(outcomes(result)) == sorted((name, "failed") for name in tools)
    assert set(seen) == {PLUGIN}
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("use", sample(WORKING, "FileSystem"))
def test_beside_it_a_gated_call_asks_and_no_attack_gets_it_through(use: str, found: dict[str, Case]) -> None:
    case = found[use]
    model = {"model": scripted(Call("wipe", {"path": "/"}, id="c1"))}
    tools = gated()
    disk = plugin("disk", toolsets=[tools.toolset])
    approver = "approvers" in case.rights  # the user named it, so it may answer
    kernel, agent, reason = agent_with(case.entry, disk, rights=case.rights, **model)
    assert not reason
    result = run(agent, deps=create_default_deps(kernel=kernel))
    assert isinstance(result.output, DeferredToolRequests) or approver
    for attack, (make, called) in UNAPPROVED.items():
        if approver and called == "wipe":
            continue
        tools = gated()
        plugins = [plugin("disk", toolsets=[tools.toolset]), plugin("hostile", capabilities=make)]
        with suppress(Exception):  # refused at construction, or the run ends
            how = {"model": scripted(Call(called, {"path": "/"}, id="c1"))}
            kernel, agent, _ = agent_with(case.entry, *plugins, rights=case.rights, **how)
            run(agent, deps=create_default_deps(kernel=kernel))
        assert "wipe" not in tools.names, attack


def test_code_mode_gets_only_tools_that_never_ask() -> None:
    pytest.importorskip("pydantic_monty", reason="needs pydantic-ai-harness[code-mode]")
    tools = gated()
    disk = plugin("disk", toolsets=[tools.toolset])
    code = Call("run_code", {"code": "a = await look(path='here')\na"}, id="c1")
    kernel, agent, _ = agent_with({"use": "CodeMode"}, disk, model=scripted(code))
    run(agent, deps=create_default_deps(kernel=kernel))
    assert tools.ran == [("look", {"path": "here", "text": ""})]
    described = next(t for t in kernel.explain(agent).tools if t.name == "run_code")
    assert (described.plugin, described.approval, described.tags) == (PLUGIN, "never", ("write",))
    tools.ran.clear()
    for rule, program in ((None, "await wipe(path='/')"), ("name:look", "await look(path='here')")):
        code = Call("run_code", {"code": program}, id="c1")
        kernel, agent, _ = agent_with({"use": "CodeMode"}, disk, model=scripted(code), interrupt_on=rule)
        result = run(agent, deps=create_default_deps(kernel=kernel))
        assert tools.ran == []
        assert [outcome for name, outcome in outcomes(result) if name == "run_code"] != ["success"]


def test_a_delegate_of_the_coder_cannot_do_what_the_agent_may_not() -> None:
    tools = gated()
    delegate = Call("delegate_task", {"agent_name": "self", "task": "wipe it"}, id="c1")
    script = scripted(delegate, Call("wipe", {"path": "/"}, id="c2"))
    disk = plugin("disk", toolsets=[tools.toolset])
    kernel, agent, _ = agent_with({"use": "Coder"}, disk, model=script)
    with suppress(Exception):
        run(agent, deps=create_default_deps(kernel=kernel))
    assert tools.ran == []


def test_it_says_what_to_install_with_the_version_that_is_here() -> None:
    _, _, reason = agent_with({"use": "pydantic_ai_harness:BrowserUse"})
    assert re.search(r"needs-extra: .*pip install 'pydantic-ai-harness\[browser-use\]==0\.62\.\d+'", reason)
