"""History processors: the chain, what is stored and what is only sent, and what an exception does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextContent, TextPart, UserPromptPart

from deep_core import CompactionEvent, PluginError, Processor, PromptSection, create_default_deps
from tests.plugins_by_hand import Tools, agent_of, kernel_of, plugin, run, scripted
from tests.stubs import Call

Messages = list[ModelMessage]


def saying(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def adding(text: str) -> Any:
    """A processor that puts a message first."""
    return lambda messages: [saying(text), *messages]


def texts(view: Any) -> list[str]:
    return [message.text for message in view.messages if message.role == "user"]


def history(count: int) -> Messages:
    """`count` finished turns."""
    out: Messages = []
    for i in range(count):
        out += [saying(f"question {i}"), ModelResponse(parts=[TextPart(f"answer {i}")])]
    return out


def test_the_chain_is_redact_then_reduce_then_annotate_and_plugins_in_order() -> None:
    model = scripted()
    b = plugin(
        "b",
        processors=[
            Processor("b_annotate", adding("b-annotate"), phase="annotate"),
            Processor("b_redact", adding("b-redact"), phase="redact"),
        ],
    )
    a = plugin(
        "a",
        processors=[
            Processor("a_reduce", adding("a-reduce")),
            Processor("a_annotate", adding("a-annotate"), phase="annotate"),
            Processor("a_redact", adding("a-redact"), phase="redact"),
        ],
    )
    run(agent_of(b, a, model=model, history_processors=[adding("app-reduce")]))
    chain = ["b-annotate", "a-annotate", "app-reduce", "a-reduce", "b-redact", "a-redact", "go"]
    assert texts(model.player.views[0]) == chain


def test_the_users_order_moves_a_plugins_processors() -> None:
    model = scripted()
    plugins = [plugin(name, processors=[Processor(name, adding(name))]) for name in ("a", "b")]
    config = {"plugins": {"a": {"order": {"history_processors": 10}}}}
    run(agent_of(*plugins, model=model, config=config))
    assert texts(model.player.views[0]) == ["a", "b", "go"]


def plain(messages: Messages) -> Messages:
    return [saying("plain"), *messages]


def with_context(ctx: RunContext[Any], messages: Messages) -> Messages:
    return [saying(f"ctx {ctx.deps.app}"), *messages]


async def slow(messages: Messages) -> Messages:
    return [saying("async"), *messages]


async def slow_with_context(ctx: RunContext[Any], messages: Messages) -> Messages:
    return [saying(f"async ctx {ctx.deps.app}"), *messages]


def unannotated(ctx, messages):  # type: ignore[no-untyped-def]
    return [saying(f"ctx {ctx.deps.app}"), *messages]


async def slow_unannotated(ctx, messages):  # type: ignore[no-untyped-def]
    return [saying(f"async ctx {ctx.deps.app}"), *messages]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (plain, "plain"),
        (with_context, "ctx me"),
        (slow, "async"),
        (slow_with_context, "async ctx me"),
        (unannotated, "ctx me"),  # Pydantic AI itself calls these two with the messages alone
        (slow_unannotated, "async ctx me"),
        (lambda messages, more=(): [saying("plain"), *messages, *more], "plain"),
    ],
)
@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_every_form_that_pydantic_ai_takes(form: Any, said: str, bare: bool, own: bool) -> None:
    model = scripted()
    given = [form if bare else Processor("it", form)]
    agent = (
        agent_of(model=model, history_processors=given) if own else agent_of(plugin("p", processors=given), model=model)
    )
    run(agent, deps=create_default_deps(app="me"))
    assert texts(model.player.views[0]) == [said, "go"]


def test_persisted_the_history_is_what_the_processor_made() -> None:
    agent = agent_of(plugin("p", processors=[Processor("last_two", lambda messages: messages[-2:])]))
    result = run(agent, message_history=history(5))
    assert len(result.all_messages()) == 3  # two kept, and the answer


def test_not_persisted_only_the_request_is_shaped() -> None:
    model = scripted(Call("look", {}))
    tools = Tools("look")
    shape = Processor("first_out", lambda messages: messages[2:], persist=False)
    agent = agent_of(plugin("p", processors=[shape], toolsets=[tools.toolset]), model=model)
    result = run(agent, message_history=history(3))
    assert [len(view.messages) for view in model.player.views] == [5, 7]
    assert len(result.all_messages()) == 6 + 4
    assert "question 0" in str(result.all_messages())


def test_what_is_persisted_and_what_is_not_do_not_mix() -> None:
    model = scripted(Call("look", {}))
    processors = [
        Processor("hide", adding("only sent"), persist=False, phase="annotate"),
        Processor("trim", lambda messages: messages[-6:]),
    ]
    agent = agent_of(plugin("p", processors=processors, toolsets=[Tools("look").toolset]), model=model)
    result = run(agent, message_history=history(6))
    assert "only sent" not in str(result.all_messages())
    assert all(texts(view)[0] == "only sent" for view in model.player.views)
    assert "question 0" not in str(result.all_messages())


@pytest.mark.parametrize("phase", ["reduce", "annotate"])
@pytest.mark.parametrize("broken", [lambda messages: 1 / 0, lambda messages: [], lambda messages: None])
def test_one_that_fails_leaves_the_history_as_it_was(phase: Any, broken: Any) -> None:
    model = scripted()
    kernel = kernel_of(plugin("p", processors=[Processor("broken", broken, phase=phase)]))
    result = run(kernel.create_agent(model), message_history=history(2))
    assert texts(model.player.views[0]) == ["question 0", "question 1", "go"]
    assert len(result.all_messages()) == 6
    (incident,) = kernel.incidents
    assert (incident.plugin, incident.where) == ("p", "processor broken")


def test_one_that_fails_halfway_through_changing_the_list_leaves_the_history_as_it_was() -> None:
    def halfway(messages: Messages) -> Messages:
        del messages[:2]
        raise KeyError("gone")

    model = scripted()
    result = run(
        agent_of(plugin("p", processors=[Processor("halfway", halfway)]), model=model), message_history=history(2)
    )
    assert texts(model.player.views[0]) == ["question 0", "question 1", "go"]
    assert len(result.all_messages()) == 6


@pytest.mark.parametrize(
    "rule", [{"phase": "redact"}, {"phase": "redact", "on_error": "keep"}, {"phase": "reduce", "on_error": "stop"}]
)
def test_a_redactor_that_fails_stops_the_run_before_anything_is_sent(rule: dict[str, Any]) -> None:
    model = scripted()
    agent = agent_of(plugin("p", processors=[Processor("hide", lambda messages: 1 / 0, **rule)]), model=model)
    with pytest.raises(ZeroDivisionError) as caught:
        run(agent)
    assert model.player.views == []
    assert any("plugin p" in note and "processor hide" in note for note in caught.value.__notes__)


def test_a_redactor_sees_what_live_sections_say() -> None:
    def hide(messages: Messages) -> Messages:
        out: Messages = []
        for message in messages:
            parts = [
                replace(part, content=[replace(item, content=item.content.replace("hunter2", "***"))])
                if isinstance(part, UserPromptPart) and isinstance(item := part.content[0], TextContent)
                else part
                for part in message.parts
            ]
            out.append(ModelRequest(parts=parts) if isinstance(message, ModelRequest) else message)  # type: ignore[arg-type]
        return out

    model = scripted()
    section = PromptSection.live("secret", lambda ctx: "the password is hunter2")
    result = run(
        agent_of(plugin("p", sections=[section], processors=[Processor("hide", hide, phase="redact")]), model=model)
    )
    assert "the password is ***" in str(model.player.views[0].messages)
    assert "hunter2" not in str(result.all_messages())


def hide(messages: Messages) -> Messages:
    out: Messages = []
    for message in messages:
        if isinstance(message, ModelRequest):
            said = [part for part in message.parts if isinstance(part, UserPromptPart)]
            parts = [replace(part, content=str(part.content).replace("hunter2", "***")) for part in said]
            message = replace(message, parts=[*parts, *(part for part in message.parts if part not in said)])
        out.append(message)
    return out


class Adds(AbstractCapability[Any]):
    """Adds a secret to each attempt, or lets Pydantic AI add it behind the kernel."""

    def __init__(self, where: str) -> None:
        self.where = where

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        if self.where == "enqueued":
            ctx.enqueue("the password is hunter2")
        return request_context

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        if self.where == "an attempt":
            request_context.messages = [*request_context.messages, saying("the password is hunter2")]
        return request_context


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
@pytest.mark.parametrize("where", ["an attempt", "enqueued"])
def test_a_redactor_sees_what_comes_into_a_request_after_its_preparation(where: str) -> None:
    model, calls = scripted(), list[int]()

    def hide_and_count(messages: Messages) -> Messages:
        calls.append(len(messages))
        return hide(messages)

    redactor = plugin("p", processors=[Processor("hide", hide_and_count, phase="redact")])
    run(agent_of(redactor, plugin("adds", capabilities=[Adds(where)]), model=model))
    assert "the password is ***" in str(model.player.views[0].messages)
    assert len(calls) == 2
    run(agent_of(redactor, plugin("adds", capabilities=[Adds("nowhere")])))
    assert len(calls) == 3  # nothing was added: once a request


def test_strict_lets_a_processors_error_through() -> None:
    agent = agent_of(plugin("p", processors=[Processor("broken", lambda messages: 1 / 0)]), strict=True)
    with pytest.raises(ZeroDivisionError):
        run(agent)


def test_listeners_hear_of_a_history_that_became_shorter() -> None:
    heard: list[CompactionEvent] = []

    def listen(event: Any) -> None:
        if isinstance(event, CompactionEvent):
            heard.append(event)

    shorten = Processor("shorten", lambda messages: messages[-1:])
    run(agent_of(plugin("p", processors=[shorten]), plugin("ear", run_event=listen)), message_history=history(3))
    (event,) = heard
    assert (event.plugin, event.processor, event.messages_before, event.messages_after) == ("p", "shorten", 7, 1)


@pytest.mark.parametrize("wrong", [3, "shorten", None, object()])
def test_what_is_no_processor_is_an_error_that_names_the_plugin(wrong: Any) -> None:
    with pytest.raises(PluginError, match="plugin p"):
        agent_of(plugin("p", processors=[wrong]))
