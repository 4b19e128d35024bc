"""Policy: which tools are shown, which calls ask, which are refused, and what a person's answer does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    ConversationTypeAdapter,
    DeferredToolRequests,
    FunctionToolset,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.exceptions import ApprovalRequired, UserError

from deep_core import (
    Allow,
    Ask,
    ConfigError,
    DeepAgentDeps,
    Deny,
    PluginWarning,
    Tag,
    ToolCall,
    ToolName,
    create_default_deps,
)
from tests import another_process
from tests.environments import REPOSITORY
from tests.plugins_by_hand import Tools, agent_of, kernel_of, outcomes, pending, plugin, returns, run, scripted
from tests.stubs import Call


class Answer(BaseModel):
    """A structured output."""

    x: int


def files() -> Tools:
    """A reader, a writer and a runner; the runner marks itself."""
    tools = Tools(id="files")
    tools.add("read_file", tags=["read"]).add("write_file", tags=["write"])
    return tools.add("execute", tags=["execute"], requires_approval=True)


def calling(name: str, **args: Any) -> Any:
    return scripted(Call(name, args, id="c1"))


def resume(agent: Any, result: Any, deps: DeepAgentDeps[Any], answer: Any = True, **how: Any) -> Any:
    """Answer every waiting call with one answer, and go on."""
    requests = pending(result)
    results = requests.build_results(approvals=dict.fromkeys([c.tool_call_id for c in requests.approvals], answer))
    return run(agent, None, deps, message_history=result.all_messages(), deferred_tool_results=results, **how)


# -- what asks -------------------------------------------------------------------------------------------------------


def test_a_tool_that_marks_itself_asks_and_runs_once_when_approved() -> None:
    tools, deps = files(), create_default_deps()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling("execute", path="x"))
    asked = run(agent, deps=deps)
    (call,) = pending(asked).approvals
    assert (call.tool_name, call.args_as_dict(), tools.ran) == ("execute", {"path": "x"}, [])
    assert pending(asked).metadata["c1"]["plugin"] == "files"
    done = resume(agent, asked, deps)
    assert done.output == "done"
    assert tools.ran == [("execute", {"path": "x", "text": ""})]


def test_a_tool_without_a_rule_does_not_ask() -> None:
    tools = files()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling("write_file", path="x"))
    assert run(agent).output == "done"
    assert tools.names == ["write_file"]


def test_denied_the_model_reads_why_and_the_tool_does_not_run() -> None:
    tools, deps = files(), create_default_deps()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling("execute", path="x"))
    done = resume(agent, run(agent, deps=deps), deps, ToolDenied("not on a Friday"))
    assert (tools.ran, outcomes(done)) == ([], [("execute", "denied")])
    assert "not on a Friday" in done.all_messages_json().decode()


@pytest.mark.parametrize(
    ("interrupt_on", "asking"),
    [
        (None, {"execute"}),
        ({}, {"execute"}),
        ({"write_file": True}, {"write_file", "execute"}),
        ({"execute": False}, set()),
        ({"execute": False, "write_file": True}, {"write_file"}),
        ({"write_file": False}, {"execute"}),
        ("write", {"write_file", "execute"}),
        (Tag("read") | ToolName("write_file"), {"read_file", "write_file", "execute"}),
        (True, {"read_file", "write_file", "execute"}),
        (False, set()),
    ],
)
@pytest.mark.parametrize("name", ["read_file", "write_file", "execute"])
def test_rules_only_add_and_only_an_explicit_no_takes_away(interrupt_on: Any, asking: set[str], name: str) -> None:
    tools = files()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling(name), interrupt_on=interrupt_on)
    asked = isinstance(run(agent).output, DeferredToolRequests)
    assert (asked, tools.names) == ((True, []) if name in asking else (False, [name]))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_predicate_decides_on_the_call(asynchronous: bool) -> None:
    seen: list[ToolCall] = []

    def outside(call: ToolCall) -> bool:
        seen.append(call)
        return call.args["path"].startswith("/etc")

    async def slowly(call: ToolCall) -> bool:
        await asyncio.sleep(0)
        return outside(call)

    for path, asks in (("notes.md", False), ("/etc/passwd", True)):
        tools, deps = files(), create_default_deps()
        agent = agent_of(
            plugin("files", toolsets=[tools.toolset]),
            model=calling("write_file", path=path),
            interrupt_on={"write_file": slowly if asynchronous else outside},
        )
        result = run(agent, deps=deps)
        assert isinstance(result.output, DeferredToolRequests) is asks
        if asks:
            assert resume(agent, result, deps).output == "done"
        assert [args["path"] for _, args in tools.ran] == [path]
    call = seen[0]
    assert (call.tool, call.original, call.plugin, call.call_id, call.depth) == (
        *("write_file", "write_file", "files", "c1"),
        0,
    )
    assert call.tags == {"write"}
    assert call.args["path"] == "notes.md"


def never(call: ToolCall) -> bool:
    return False


def always(call: ToolCall) -> bool:
    return True


@pytest.mark.parametrize(
    "rules",
    [
        {"my_write_file": never, "write_file": True},
        {"my_write_file": never, "write_file": always},
        {"my_write_file": always, "write_file": never},
        {"my_write_file": False, "write_file": always},
    ],
)
def test_of_rules_for_both_names_of_a_tool_the_strictest_holds(rules: dict[str, Any]) -> None:
    tools = files()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]),
        model=calling("my_write_file"),
        config={"plugins": {"files": {"prefix": "my"}}},
        interrupt_on=rules,
    )
    pending(run(agent))
    assert tools.ran == []


@pytest.mark.parametrize("name", ["read_file", "old_read_file"])
def test_a_predicate_for_a_replaced_tool_holds_for_what_took_its_place(name: str) -> None:
    tools = Tools(id="safe").add("read_file", tags=["read"])
    agent = agent_of(
        plugin("files", toolsets=[files().toolset]),
        plugin("safe", toolsets=[tools.toolset]),
        model=calling("read_file", path="secret"),
        config={"plugins": {"files": {"prefix": "old"}, "safe": {"replaces": ["files:read_file"]}}},
        interrupt_on={name: lambda call: call.args["path"] == "secret"},
    )
    pending(run(agent))
    assert tools.ran == []


def test_a_predicate_that_raises_leaves_the_decision_to_a_person() -> None:
    def broken(call: ToolCall) -> bool:
        raise KeyError("depth")

    tools = files()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]), model=calling("write_file"), interrupt_on={"write_file": broken}
    )
    assert [call.tool_name for call in pending(run(agent)).approvals] == ["write_file"]
    assert tools.ran == []


def test_a_predicate_does_not_stop_a_tool_that_marks_itself_from_asking() -> None:
    tools = files()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]),
        model=calling("execute"),
        interrupt_on={"execute": lambda call: False},
    )
    assert pending(run(agent)).approvals
    assert tools.ran == []


def test_the_applications_own_tools_are_gated_too() -> None:
    ran: list[str] = []

    def publish(text: str) -> str:
        ran.append(text)
        return "published"

    given: list[dict[str, Any]] = [{"tools": [publish]}, {"toolsets": [FunctionToolset([publish], id="mine")]}]
    for own in given:
        agent = agent_of(model=calling("publish", text="hello"), interrupt_on={"publish": True}, **own)
        assert pending(run(agent)).approvals
    assert ran == []


def test_tools_of_the_applications_capability_are_gated_too() -> None:
    from pydantic_ai.capabilities import Capability

    tools = Tools("publish")
    model = calling("publish", text="hello")
    own = Capability[Any](id="press", toolsets=[tools.toolset])
    agent = agent_of(model=model, capabilities=[own], interrupt_on={"publish": True})
    assert pending(run(agent)).approvals
    assert tools.ran == []


@pytest.mark.parametrize("strategy", ["early", "graceful", "exhaustive"])
@pytest.mark.parametrize("first", ["execute", "final_result"])
def test_a_call_that_asks_beside_the_final_result_is_not_run_and_the_conversation_continues(
    strategy: str, first: str
) -> None:
    both = [Call("execute", {}, id="c1"), Call("final_result", {"x": 1}, id="f1")]
    turns = scripted(both if first == "execute" else both[::-1], Call("final_result", {"x": 2}, id="f2"))
    tools, deps = files(), create_default_deps()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=turns, output_type=Answer, end_strategy=strategy)
    result = run(agent, deps=deps)
    assert (result.output, tools.ran) == (Answer(x=1), [])
    (left,) = [part for part in returns(result.all_messages()) if part.tool_call_id == "c1"]
    assert "not executed" in str(left.content)
    again = run(agent, "and now?", deps, message_history=result.all_messages())
    assert (again.output, tools.ran) == (Answer(x=2), [])


# -- what a person answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
def test_what_the_person_wrote_instead_is_what_runs(streamed: bool) -> None:
    tools, deps = files(), create_default_deps()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling("execute", path="rm -rf /"))
    answer = ToolApproved(override_args={"path": "ls", "text": "by hand"})
    asked = run(agent, deps=deps)
    handler = _ignore if streamed else None
    assert resume(agent, asked, deps, answer, event_stream_handler=handler).output == "done"
    assert tools.ran == [("execute", {"path": "ls", "text": "by hand"})]


async def _ignore(ctx: RunContext[Any], events: Any) -> None:
    async for _ in events:
        pass


def test_what_the_person_wrote_still_passes_the_plugins_checks() -> None:
    def no_root(call: ToolCall) -> Deny | None:
        return Deny("not the root") if call.args.get("path") == "/" else None

    tools, deps = files(), create_default_deps()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]),
        plugin("guard", check_call=no_root),
        model=calling("execute", path="a"),
    )
    done = resume(agent, run(agent, deps=deps), deps, ToolApproved(override_args={"path": "/"}))
    assert (tools.ran, outcomes(done)) == ([], [("execute", "failed")])


def test_each_of_several_calls_is_decided_on_its_own() -> None:
    tools, deps = files(), create_default_deps()
    model = scripted([Call("execute", {"path": p}, id=p) for p in ("a", "b", "c")] + [Call("read_file", {}, id="r")])
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=model)
    asked = run(agent, deps=deps)
    assert [call.tool_call_id for call in pending(asked).approvals] == ["a", "b", "c"]
    assert tools.names == ["read_file"]
    results = pending(asked).build_results(approvals={"a": True, "b": ToolDenied("no"), "c": True})
    run(agent, None, deps, message_history=asked.all_messages(), deferred_tool_results=results)
    # Plain tools run in threads, several at once: their order is not promised.
    assert sorted(args["path"] for name, args in tools.ran if name == "execute") == ["a", "c"]


def test_an_approval_is_for_one_call_and_not_for_the_next_with_equal_arguments() -> None:
    tools, deps = files(), create_default_deps()
    model = scripted(Call("execute", {"path": "x"}, id="c1"), Call("execute", {"path": "x"}, id="c2"))
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=model)
    again = resume(agent, run(agent, deps=deps), deps)
    assert [call.tool_call_id for call in pending(again).approvals] == ["c2"]
    assert len(tools.ran) == 1


PROGRAM = """
import asyncio, json, sys
from pydantic_ai import ConversationTypeAdapter
from deep_core import create_default_deps
from tests.plugins_by_hand import Tools, kernel_of, plugin, scripted

given = json.loads(sys.stdin.read())
tools = Tools("execute", requires_approval=True)
kernel = kernel_of(plugin("files", toolsets=[tools.toolset]))
agent = kernel.create_agent(scripted())
deps = kernel.load_deps(given["deps"]) if given["deps"] else create_default_deps(kernel=kernel)
conversation = ConversationTypeAdapter.validate_json(given["conversation"])
requests = conversation.deferred_tool_requests
results = requests.build_results(approve_all=True)
result = asyncio.run(agent.run(conversation=conversation, deferred_tool_results=results, deps=deps))
print(json.dumps({"output": str(result.output), "ran": tools.ran, "id": deps.session_id}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_deps", [True, False])
def test_a_conversation_that_waits_is_approved_in_another_process_with_its_session(with_deps: bool) -> None:
    """The session's record says what was asked; the conversation alone, which a client may hold, proves nothing."""
    tools, deps = Tools("execute", requires_approval=True), create_default_deps()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling("execute", path="x"))
    asked = run(agent, deps=deps)
    stored = {
        "conversation": ConversationTypeAdapter.dump_json(asked.conversation).decode(),
        "deps": deps.dump() if with_deps else "",
    }
    done = another_process.run(PROGRAM, stdin=json.dumps(stored), cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["ran"] == ([["execute", {"path": "x", "text": ""}]] if with_deps else [])
    assert (answer["output"] == "done") is with_deps
    assert (answer["id"] == deps.session_id) is with_deps


# -- what plugins say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([Allow(), None], "success"),
        ([Allow(), Ask("look first")], "asked"),
        ([Ask("look first"), Allow()], "asked"),
        ([Ask("look first"), Deny("never")], "failed"),
        ([Deny("never"), Allow()], "failed"),
    ],
)
def test_the_strictest_answer_of_all_plugins_wins(answers: list[Any], outcome: str) -> None:
    tools, deps = files(), create_default_deps()
    checks = [plugin(f"guard{i}", check_call=_saying(answer)) for i, answer in enumerate(answers)]
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), *checks, model=calling("write_file"))
    result = run(agent, deps=deps)
    if outcome == "asked":
        assert pending(result).metadata["c1"]["reason"] == "look first"
        result = resume(agent, result, deps)
        outcome = "success"
    assert outcomes(result) == [("write_file", outcome)]
    assert len(tools.ran) == (outcome == "success")


def _saying(answer: Any) -> Any:
    return lambda call: answer


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("wrong", [ValueError("no idea"), "allow", True, 1])
def test_a_check_that_raises_or_answers_nonsense_denies(wrong: Any, asynchronous: bool) -> None:
    def check(call: ToolCall) -> Any:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    async def slowly(call: ToolCall) -> Any:
        return check(call)

    tools = files()
    kernel = kernel_of(
        plugin("files", toolsets=[tools.toolset]), plugin("guard", check_call=slowly if asynchronous else check)
    )
    result = run(kernel.create_agent(calling("write_file")))
    assert (tools.ran, outcomes(result)) == ([], [("write_file", "failed")])
    (incident,) = kernel.incidents
    assert (incident.plugin, incident.where) == ("guard", "hook deep_check_call")


def test_a_denial_outlives_an_approval() -> None:
    tools, deps = files(), create_default_deps()
    answers = iter([None, None, Deny("changed my mind"), Deny("changed my mind")])
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]),
        plugin("guard", check_call=lambda call: next(answers, Deny("changed my mind"))),
        model=calling("execute"),
    )
    asked = run(agent, deps=deps)
    answers = iter([Deny("changed my mind")] * 9)
    done = resume(agent, asked, deps)
    assert (tools.ran, outcomes(done)) == ([], [("execute", "failed")])


def test_when_no_person_can_be_asked_a_plugins_ask_is_a_refusal() -> None:
    tools = files()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]),
        plugin("guard", check_call=lambda call: Ask("look first")),
        model=calling("write_file"),
        interrupt_on=False,
    )
    result = run(agent)
    assert (tools.ran, outcomes(result)) == ([], [("write_file", "failed")])


@pytest.mark.parametrize(
    ("reason", "told"), [("5 is a lot", "Denied: 5 is a lot"), (None, "Denied: a rule asks for approval")]
)
def test_when_no_person_can_be_asked_a_tool_that_asks_in_its_call_is_refused(reason: str | None, told: str) -> None:
    def buy() -> str:
        raise ApprovalRequired(metadata=None if reason is None else {"reason": reason})

    shop = plugin("shop", toolsets=[FunctionToolset([buy], id="shop")])
    result = run(agent_of(shop, model=calling("buy"), interrupt_on=False))
    assert (result.output, outcomes(result)) == ("done", [("buy", "failed")])
    assert told in returns(result.all_messages())[0].model_response_str()


def test_a_check_sees_the_final_name_the_original_and_the_tags() -> None:
    seen: list[ToolCall] = []
    tools = files()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]),
        plugin("guard", check_call=seen.append),
        model=calling("fs_read_file", path="a"),
        config={"plugins": {"files": {"prefix": "fs"}}},
    )
    run(agent)
    call = seen[0]
    assert (call.tool, call.original, call.plugin, set(call.tags)) == ("fs_read_file", "read_file", "files", {"read"})


# -- rules must match, filters hold ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"interrupt_on": {"exceute": True}}, ["interrupt_on", "exceute", "Did you mean 'execute'"]),
        ({"interrupt_on": {"exceute": False}}, ["Did you mean 'execute'"]),
        ({"interrupt_on": "wriite"}, ["interrupt_on", "no tool tagged 'wriite'", "write"]),
        ({"interrupt_on": "write_file"}, ["no tool tagged 'write_file'", "name:write_file"]),
        ({"interrupt_on": "write | name:exceute"}, ["interrupt_on: no tool named 'exceute'", "'execute'"]),
        ({"interrupt_on": "write | exceute"}, ["interrupt_on: no tool tagged 'exceute'", "'execute'"]),
        ({"interrupt_on": "write & ~name:wriite_file"}, ["no tool named 'wriite_file'", "'write_file'"]),
        ({"tool_filter": "reed"}, ["tool_filter", "read"]),
        ({"tool_filter": "reed & ~write"}, ["tool_filter", "read"]),
    ],
)
def test_a_rule_that_matches_no_tool_is_an_error_with_a_suggestion(how: dict[str, Any], says: list[str]) -> None:
    with pytest.raises((UserError, ValueError)) as caught:
        agent_of(plugin("files", toolsets=[files().toolset]), **how)
    for text in says:
        assert text in str(caught.value)


def test_a_standard_tag_that_no_tool_has_may_stand_beside_others() -> None:
    tools = files()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset]), model=calling("write_file"), interrupt_on="network | write"
    )
    assert pending(run(agent)).approvals


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (["write_file"], "of type list"),
        (("wriite_file",), "of type tuple"),
        (1, "of type int"),
        ({"write_file": "yes"}, "'write_file': 'yes' is not True, False or a predicate"),
        ({"write_file": 1}, "'write_file': 1 is not True"),
        ({"write_file": None}, "'write_file': None is not True"),
        ({1: True}, "1: True is not"),
    ],
)
def test_a_rule_of_another_shape_is_refused_instead_of_asking_about_nothing(rule: Any, says: str) -> None:
    with pytest.raises(UserError, match="interrupt_on") as caught:
        agent_of(plugin("files", toolsets=[files().toolset]), interrupt_on=rule)
    assert says in str(caught.value)


def test_a_rule_is_checked_when_tools_are_first_listed_where_they_cannot_be_known_before() -> None:
    tools = files()
    agent = agent_of(
        plugin("files", toolsets=[tools.toolset.filtered(lambda ctx, definition: True)]),
        model=calling("execute"),
        interrupt_on={"exceute": True},
    )
    for _ in range(2):  # the second run too: a service answers one with an error, and goes on
        with pytest.raises(UserError, match="Did you mean 'execute'"):
            run(agent)
    assert tools.ran == []


@pytest.mark.parametrize("rules", [{"tool_filter": "reed"}, {"interrupt_on": "exceute"}])
def test_a_rule_that_matches_nothing_stops_every_run_until_it_matches(rules: dict[str, Any]) -> None:
    tools, offered = files(), False
    tools.add("more", tags=["reed", "exceute"])
    toolset = tools.toolset.filtered(lambda ctx, definition: offered or definition.name != "more")
    agent = agent_of(plugin("files", toolsets=[toolset]), model=calling("write_file"), **rules)
    for _ in range(2):
        with pytest.raises(ValueError, match="no tool tagged"):
            run(agent)
    assert tools.ran == []
    offered = True  # say, a server that was not there before
    assert run(agent).output == "done"


def test_a_rule_may_be_about_a_tool_that_one_of_several_toolsets_does_not_offer() -> None:
    given = [
        Tools(name, id=name).toolset.filtered(lambda ctx, definition: True) for name in ("kept", "left_out", "other")
    ]
    agent = agent_of(
        plugin("files", toolsets=given),
        config={"plugins": {"files": {"tools": "~name:left_out"}}},
        interrupt_on={"left_out": True},
    )
    assert run(agent).output == "done"


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("~name:exceute", "'execute'"), ("~execut", "'execute'"), ("read | ~write_file", "name:write_file")],
)
def test_an_exclusion_that_looks_like_a_tool_and_is_none_is_reported(slip: str, meant: str) -> None:
    files_ = plugin("files", toolsets=[files().toolset])
    with pytest.warns(PluginWarning, match=f"tool_filter: .* excludes nothing by .*; did you mean {meant}"):
        agent_of(files_, tool_filter=slip)
    with pytest.warns(PluginWarning, match="plugins.files.tools: .*did you mean"):
        agent_of(files_, config={"plugins": {"files": {"tools": slip}}})


def test_what_is_not_installed_can_be_excluded_and_nothing_is_said(recwarn: pytest.WarningsRecorder) -> None:
    agent = agent_of(plugin("files", toolsets=[files().toolset]), tool_filter="~(name:send_mail | network)")
    assert run(agent).output == "done"
    assert not recwarn.list


def test_an_expression_with_a_syntax_error_says_where() -> None:
    with pytest.raises(ValueError, match="column"):
        agent_of(plugin("files", toolsets=[files().toolset]), tool_filter="read and write")


@pytest.mark.parametrize("called", ["write_file", "execute", "read_file"])
def test_the_filter_holds_when_shown_and_when_executed(called: str) -> None:
    tools, model = files(), calling(called)
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=model, tool_filter="read")
    result = run(agent)
    assert list(model.player.views[0].tools) == ["read_file"]
    assert tools.names == (["read_file"] if called == "read_file" else [])
    assert len(outcomes(result)) == 1


def test_several_filters_all_hold() -> None:
    model = scripted()
    agent = agent_of(
        plugin("files", toolsets=[files().toolset]),
        model=model,
        tool_filter="~execute",
        config={"agent": {"tool_filter": "~write", "tools_policy": {"allow_list": ["read_file", "execute"]}}},
    )
    run(agent)
    assert list(model.player.views[0].tools) == ["read_file"]


def test_interrupt_on_false_asks_no_person_and_all_runs() -> None:
    tools = files()
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling("execute"), interrupt_on=False)
    assert run(agent).output == "done"
    assert tools.names == ["execute"]


def test_approve_in_a_plugins_section_is_an_expression_true_or_false() -> None:
    for approve, asking in (("write", {"write_file", "execute"}), (True, {"read_file", "write_file", "execute"})):
        for name in ("read_file", "write_file", "execute"):
            tools = files()
            agent = agent_of(
                plugin("files", toolsets=[tools.toolset]),
                model=calling(name),
                config={"plugins": {"files": {"require_approval": approve}}},
            )
            assert isinstance(run(agent).output, DeferredToolRequests) is (name in asking)
    tools = files()
    config = {"plugins": {"files": {"require_approval": False}}}
    agent = agent_of(plugin("files", toolsets=[tools.toolset]), model=calling("execute"), config=config)
    assert run(agent).output == "done"


def test_a_wrong_expression_in_a_plugins_section_names_the_key() -> None:
    for key in ("require_approval", "tools", "defer"):
        with pytest.raises((ConfigError, ValueError, UserError), match=rf"plugins\.files\.{key}"):
            agent_of(plugin("files", toolsets=[files().toolset]), config={"plugins": {"files": {key: "wriite"}}})
        with pytest.raises(ConfigError, match=rf"plugins\.files\.{key}"):
            agent_of(plugin("files", toolsets=[files().toolset]), config={"plugins": {"files": {key: "a & & b"}}})


@pytest.mark.parametrize("toolsets", [1, 2])
def test_each_part_of_what_asks_in_a_plugins_section_is_there(toolsets: int) -> None:
    given = [files().toolset, Tools("look", id="more").toolset][:toolsets]
    for approve in ("write | exeucte", "write & ~name:wriite_file"):
        with pytest.raises(ValueError, match=r"plugins\.files\.require_approval: no tool"):
            agent_of(plugin("files", toolsets=given), config={"plugins": {"files": {"require_approval": approve}}})
    agent_of(plugin("files", toolsets=given), config={"plugins": {"files": {"require_approval": "write | network"}}})
