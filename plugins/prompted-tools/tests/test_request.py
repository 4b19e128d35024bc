"""What a model without tool calls receives, and what the run makes of its text."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from deep_prompted_tools import PromptedTools
from deep_prompted_tools.reply import result_marker
from deep_universe import TextDriver, ToolCall
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput, PromptedOutput, TextOutput, ToolOutput
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage, UsageLimits

from tests.text_models import TextModel, dialects, markup_in, texts_of

pytestmark = pytest.mark.anyio
every_dialect = pytest.mark.parametrize("driver", dialects(), ids=lambda driver: driver.name)


def agent_of(model: Any, **settings: Any) -> Agent[Any, Any]:
    """An agent with two tools and prompted tools, without a kernel."""
    ours = {key: settings.pop(key) for key in ("mode", "dialect", "retries", "recover") if key in settings}
    agent: Agent[Any, Any] = Agent(model, capabilities=[PromptedTools(**ours)], **settings)

    @agent.tool_plain
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    @agent.tool_plain
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    return agent


def calls(driver: TextDriver, *wanted: tuple[str, dict[str, Any]]) -> str:
    return driver.encode_calls([ToolCall(f"c{index}", name, args) for index, (name, args) in enumerate(wanted)])


def outline(messages: list[ModelMessage]) -> list[Any]:
    """What happened: texts, (tool, arguments), (tool, result)."""
    found: list[Any] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                found.append((part.tool_name, part.args_as_dict()))
            elif isinstance(part, ToolReturnPart):
                found.append((part.tool_name, part.content))
            else:
                found.append(getattr(part, "content", None))
    return found


async def stream(agent: Agent[Any, Any], prompt: str, **settings: Any) -> tuple[Any, list[Any]]:
    """The result, and every event before it."""
    async with agent.run_stream_events(prompt, **settings) as events:
        seen = [event async for event in events]
    return seen[-1].result, seen[:-1]


@every_dialect
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_parallel_calls_run_and_their_results_come_back(driver: TextDriver, streamed: bool) -> None:
    both = calls(driver, ("double", {"number": 21}), ("shout", {"text": "ho"}))
    model = TextModel(f"I need both.\n\n{both}", "42 and HO.")
    agent = agent_of(model, dialect=driver.name)
    result, events = (await agent.run("go"), []) if not streamed else await stream(agent, "go")
    assert outline(result.all_messages()) == [
        "go",
        "I need both.",
        ("double", {"number": 21}),
        ("shout", {"text": "ho"}),
        ("double", 42),
        ("shout", "HO"),
        "42 and HO.",
    ]
    assert result.output == "42 and HO."
    assert not any(markup_in(repr(event)) for event in events)
    first, second = model.requests
    assert "Say it loudly." in first.instructions
    assert second.instructions == first.instructions
    assert second.turns[:1] == first.turns
    assert second.turns[1] == ("assistant", f"I need both.\n{both}")
    assert "42" in second.last
    assert "HO" in second.last


@every_dialect
async def test_every_request_is_the_beginning_of_the_next(driver: TextDriver) -> None:
    steps = [calls(driver, ("double", {"number": number})) for number in range(5)]
    model = TextModel(*steps, "done")
    await agent_of(model, dialect=driver.name, instructions="Be brief.").run("go")
    assert len(model.requests) == 6
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.turns[: len(before.turns)] == before.turns
        assert after.instructions == before.instructions


@every_dialect
async def test_a_stored_history_replays_in_the_dialect(driver: TextDriver) -> None:
    model = TextModel(calls(driver, ("double", {"number": 1})), "first done", "second done")
    agent = agent_of(model, dialect=driver.name)
    first = await agent.run("go")
    stored = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    again = agent_of(model, dialect=driver.name)
    second = await again.run("and now?", message_history=stored)
    assert second.output == "second done"
    assert model.requests[2].turns[:3] == model.requests[1].turns


async def test_a_conversation_may_change_its_dialect() -> None:
    first, *others = dialects()
    begun = await agent_of(TextModel(calls(first, ("double", {"number": 1})), "2"), dialect=first.name).run("go")
    for driver in others:
        model = TextModel(calls(driver, ("shout", {"text": "ho"})), "HO")
        done = await agent_of(model, dialect=driver.name).run("more", message_history=begun.all_messages())
        assert done.output == "HO"
        assert model.requests[0].turns[1] == ("assistant", calls(driver, ("double", {"number": 1})))
        assert model.requests[0].turns[2][1].startswith(result_marker(driver))


async def test_a_history_with_native_calls_becomes_text() -> None:
    history: list[ModelMessage] = ModelMessagesTypeAdapter.validate_python(
        [
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "go"}]},
            {
                "kind": "response",
                "parts": [
                    {"part_kind": "tool-call", "tool_name": "double", "args": '{"number": 4}', "tool_call_id": "n1"}
                ],
            },
            {
                "kind": "request",
                "parts": [{"part_kind": "tool-return", "tool_name": "double", "content": 8, "tool_call_id": "n1"}],
            },
        ]
    )
    model = TextModel("It was 8.")
    result = await agent_of(model).run(message_history=history)
    assert result.output == "It was 8."
    assert [role for role, _ in model.requests[0].turns] == ["user", "assistant", "user"]
    assert '"number": 4' in model.requests[0].turns[1][1]


@pytest.mark.slow
async def test_what_was_written_of_a_message_ends_with_it() -> None:
    driver = dialects()[0]
    capability = PromptedTools()
    agent: Agent[Any, Any] = Agent(
        TextModel(calls(driver, ("look", {})), calls(driver, ("look", {})), "done"), capabilities=[capability]
    )

    @agent.tool_plain
    def look() -> str:
        """Look."""
        return "nothing"

    result = await agent.run("go")
    kept = capability.dialect.history._written
    assert len(kept) == 4
    del result
    gc.collect()
    assert not kept


# -- structured output -------------------------------------------------------------------------------------------------


class City(BaseModel):
    """A city."""

    name: str
    people: int


PARIS = {"name": "Paris", "people": 2_100_000}


@every_dialect
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("output_type", [City, ToolOutput(City)], ids=["type", "ToolOutput"])
async def test_structured_output_is_a_call_of_final_result(
    driver: TextDriver, streamed: bool, output_type: Any
) -> None:
    model = TextModel(calls(driver, ("shout", {"text": "paris"})), calls(driver, ("final_result", PARIS)))
    agent = agent_of(model, dialect=driver.name, output_type=output_type)
    result = await agent.run("Paris") if not streamed else (await stream(agent, "Paris"))[0]
    assert result.output == City(**PARIS)
    assert "final_result" in model.requests[0].instructions


async def test_text_instead_of_the_output_is_asked_for_again() -> None:
    driver = dialects()[0]
    model = TextModel("It is Paris.", calls(driver, ("final_result", PARIS)))
    assert (await agent_of(model, output_type=City).run("Paris")).output == City(**PARIS)
    assert len(model.requests) == 2


async def test_a_wrong_output_reaches_the_model() -> None:
    driver = dialects()[0]
    model = TextModel(calls(driver, ("final_result", {"name": "Paris"})), calls(driver, ("final_result", PARIS)))
    assert (await agent_of(model, output_type=City).run("Paris")).output == City(**PARIS)
    assert "people" in model.requests[1].last


@pytest.mark.parametrize("output_type", [PromptedOutput(City), NativeOutput(City)], ids=["prompted", "native"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_prompted_and_native_output_leave_room_for_calls(output_type: Any, streamed: bool) -> None:
    driver = dialects()[0]
    model = TextModel(
        calls(driver, ("shout", {"text": "paris"})),
        '{"name": "Paris", "people": 2100000}',
        profile=ModelProfile(supports_tools=False, supports_json_schema_output=True),
    )
    agent = agent_of(model, output_type=output_type)
    result = await agent.run("Paris") if not streamed else (await stream(agent, "Paris"))[0]
    assert result.output == City(**PARIS)
    parameters = model.requests[0].info.model_request_parameters
    assert parameters.output_mode == "prompted"  # bound to a schema, the model could not write a call
    assert model.requests[0].instructions.count("Markdown fencing") == 1


async def test_native_output_without_tools_stays_native() -> None:
    profile = ModelProfile(supports_tools=False, supports_json_schema_output=True)
    model = TextModel('{"name": "Paris", "people": 2100000}', profile=profile)
    agent: Agent[Any, Any] = Agent(model, capabilities=[PromptedTools()], output_type=NativeOutput(City))
    assert (await agent.run("Paris")).output == City(**PARIS)
    assert model.requests[0].info.model_request_parameters.output_mode == "native"


def words(text: str) -> list[str]:
    return text.split()


async def test_a_text_function_gets_the_text_without_markup() -> None:
    driver = dialects()[0]
    model = TextModel(f"One moment.\n{calls(driver, ('double', {'number': 1}))}", "two words")
    agent = agent_of(model, output_type=TextOutput(words))
    assert (await agent.run("go")).output == ["two", "words"]


# -- results -----------------------------------------------------------------------------------------------------------


async def test_failures_are_reported_as_errors() -> None:
    driver = dialects()[0]
    model = TextModel(calls(driver, ("broken", {})), "I see.")
    agent = agent_of(model)

    @agent.tool_plain
    def broken() -> str:
        """Fail."""
        raise ToolFailed("the disk is full")

    assert (await agent.run("go")).output == "I see."
    assert "the disk is full" in model.requests[1].last
    assert '"error"' in model.requests[1].last


async def test_arguments_that_do_not_fit_are_reported_and_repeated() -> None:
    driver = dialects()[0]
    model = TextModel(calls(driver, ("double", {"number": "many"})), calls(driver, ("double", {"number": 2})), "4")
    result = await agent_of(model).run("go")
    assert result.output == "4"
    assert "valid integer" in model.requests[1].last


async def test_files_of_a_result_follow_it() -> None:
    driver = dialects()[0]
    model = TextModel(calls(driver, ("picture", {})), "A dot.")
    agent = agent_of(model)

    @agent.tool_plain
    def picture() -> list[Any]:
        """Take a picture."""
        return ["taken", BinaryContent(b"png", media_type="image/png")]

    await agent.run("go")
    content = model.requests[1].messages[-1].parts[-1].content  # type: ignore[union-attr]
    assert "taken" in content[0]  # type: ignore[index]
    assert isinstance(content[1], BinaryContent)  # type: ignore[index]


async def test_a_users_next_words_join_the_results() -> None:
    # Many chat templates refuse two user messages in a row.
    driver = dialects()[0]
    model = TextModel(calls(driver, ("double", {"number": 1})), "2")
    agent = agent_of(model)
    async with agent.iter("go") as run:
        async for node in run:
            if type(node).__name__ == "CallToolsNode" and len(model.requests) == 1:
                run.enqueue("be quick")
    assert [role for role, _ in model.requests[1].turns] == ["user", "assistant", "user"]
    assert model.requests[1].last.endswith("\n\nbe quick")


# -- settings and reasoning --------------------------------------------------------------------------------------------


async def test_settings_about_tools_are_not_sent() -> None:
    model = TextModel("hi")
    await agent_of(model).run("go", model_settings=ModelSettings(parallel_tool_calls=True, temperature=0.5))
    assert model.requests[0].info.model_settings == {"temperature": 0.5}


async def test_tool_choice_none_offers_no_tool() -> None:
    model = TextModel("hi")
    await agent_of(model).run("go", model_settings=ModelSettings(tool_choice="none"))
    assert "double" not in model.requests[0].instructions


@pytest.mark.parametrize("choice", ["none", ["shout", "final_result"]], ids=["none", "another"])
async def test_a_tool_that_tool_choice_leaves_out_does_not_run(choice: Any) -> None:
    model = TextModel(calls(dialects()[0], ("double", {"number": 1})), calls(dialects()[0], ("final_result", PARIS)))
    result = await agent_of(model, output_type=City).run("go", model_settings=ModelSettings(tool_choice=choice))
    assert next(part[0] for part in outline(result.all_messages()) if isinstance(part, tuple)) == "final_result"
    assert "there is no tool 'double'" in model.requests[1].last


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_reasoning_in_the_text_becomes_a_thought_and_calls_nothing(streamed: bool) -> None:
    driver = dialects()[0]
    inside = calls(driver, ("shout", {"text": "secret"}))
    model = TextModel(f"<think>\nMaybe {inside} or not.</think>\n\n{calls(driver, ('double', {'number': 1}))}", "2")
    agent = agent_of(model)
    result = await agent.run("go") if not streamed else (await stream(agent, "go"))[0]
    parts = [part for message in result.all_messages() for part in message.parts]
    assert [part.tool_name for part in parts if isinstance(part, ToolCallPart)] == ["double"]
    assert [part.part_kind for part in parts[1:3]] == ["thinking", "tool-call"]


async def test_the_markup_of_a_history_is_whole_where_special_tokens_are_broken() -> None:
    # Pydantic AI breaks `<|…|>` and `[TOOL_CALLS]` in what it sends to hosts of open models, in tool results above all.
    driver = next(each for each in dialects() if each.name == "mistral")
    profile = ModelProfile(supports_tools=False, may_tokenize_special_tokens_in_content=True)
    call = calls(driver, ("shout", {"text": "a [TOOL_CALLS] b"}))
    model = TextModel(call, "done", profile=profile)
    await agent_of(model, dialect="mistral").run("go")
    wrote, results = model.requests[1].turns[1][1], model.requests[1].last
    assert wrote.startswith("[TOOL_CALLS]")
    assert results.startswith("[TOOL_RESULTS]")
    if "may_tokenize_special_tokens_in_content" in ModelProfile.__annotations__:  # Pydantic AI 2.68
        assert "[TOOL_CALLS]" not in results


async def test_a_quoted_call_stays_text() -> None:
    driver = dialects()[0]
    text = f"You write it so:\n```\n{calls(driver, ('double', {'number': 1}))}\n```\nThat is all."
    model = TextModel(text)
    assert (await agent_of(model).run("how?")).output == text
    assert len(model.requests) == 1


async def test_instructions_of_a_direct_request_stay() -> None:
    from deep_prompted_tools import PromptedModel
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    model = TextModel("hi")
    wrapped = PromptedTools("always").prompted(model)
    assert isinstance(wrapped, PromptedModel)
    tool = ToolDefinition(name="look", description="Look around.")
    await model_request(
        wrapped,
        [ModelRequest.user_text_prompt("go", instructions="Be brief.")],
        model_request_parameters=ModelRequestParameters(function_tools=[tool]),
    )
    assert model.requests[0].instructions.startswith("Be brief.")
    assert "Look around." in model.requests[0].instructions


async def test_tokens_are_counted_of_what_is_sent() -> None:
    counted: list[tuple[list[ModelMessage], ModelRequestParameters]] = []

    class Counting(TextModel):
        async def count_tokens(
            self, messages: list[ModelMessage], model_settings: Any, model_request_parameters: ModelRequestParameters
        ) -> RequestUsage:
            counted.append((messages, model_request_parameters))
            return RequestUsage(input_tokens=10)

    model = Counting(calls(dialects()[0], ("double", {"number": 1})), "2")
    await agent_of(model).run("go", usage_limits=UsageLimits(count_tokens_before_request=True))
    for (messages, parameters), request in zip(counted, model.requests, strict=True):
        assert texts_of(messages) == request.turns
        assert parameters == request.info.model_request_parameters
