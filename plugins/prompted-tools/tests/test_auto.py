"""Mode `auto`: profiles, providers that refuse tools, and what is remembered; `never`, and models left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_prompted_tools import PromptedTools
from deep_prompted_tools.capability import FILE, WatchedModel
from deep_prompted_tools.learned import DAYS, read_refused, refuses_tools, write_refused
from deep_universe import TextDriver, ToolCall
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.stubs import Call, Failure, OpenAIStub, Script, Turn, assert_wire_prefix, openai_model
from tests.stubs.text_only_stubs import OldVllmStub, OllamaStub, VllmStub
from tests.text_models import TextModel, dialects

pytestmark = pytest.mark.anyio
HERMES: TextDriver = dialects()[0]
CALL = HERMES.encode_calls([ToolCall("1", "double", {"number": 21})])
either = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def model_of(stub: OpenAIStub) -> OpenAIChatModel:
    if isinstance(stub, OllamaStub):
        return OpenAIChatModel("gemma3:4b", provider=OllamaProvider(base_url=stub.base_url))
    provider = OpenAIProvider(base_url=stub.base_url, api_key="x")
    provider.client.max_retries = 0
    return OpenAIChatModel("google/gemma-3-4b-it", provider=provider)


def agent_of(model: Any, folder: Path | None = None, **settings: Any) -> Agent[Any, Any]:
    capability = PromptedTools(**settings, folder=(lambda: folder) if folder else None)
    agent: Agent[Any, Any] = Agent(model, capabilities=[capability], instructions="Be brief.")

    @agent.tool_plain
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    return agent


async def run(agent: Agent[Any, Any], streamed: bool) -> Any:
    if not streamed:
        return await agent.run("go")
    async with agent.run_stream_events("go") as events:
        return [event async for event in events][-1].result  # type: ignore[union-attr]


# -- a provider that refuses tools -------------------------------------------------------------------------------------


@pytest.mark.slow
@either
@pytest.mark.parametrize("stub_type", [OllamaStub, VllmStub, OldVllmStub])
async def test_a_refusal_switches_to_text_and_is_remembered(
    stub_type: type[OpenAIStub], streamed: bool, tmp_path: Path
) -> None:
    with stub_type(Script(Turn(f"I double.\n{CALL}"), Turn("42"), Turn(CALL), Turn("42 again"))) as stub:
        assert model_of(stub).profile.get("supports_tools", True)  # the profile is wrong
        agent = agent_of(model_of(stub), tmp_path)
        result = await run(agent, streamed)
        assert result.output == "42"
        assert stub.statuses == [400, 200, 200]
        assert_wire_prefix(*stub.requests[1:])  # the server's prompt cache holds
        assert "tools" in stub.requests[0]
        assert not any("tools" in request or "tool_choice" in request for request in stub.requests[1:])
        assert "Double a number." in json.dumps(stub.requests[1]["messages"][0:2])
        # Another agent, with another model object, asks no more.
        assert (await run(agent_of(model_of(stub), tmp_path), streamed)).output == "42 again"
        assert stub.statuses == [400, 200, 200, 200, 200]


async def test_another_process_knows_it_too(tmp_path: Path) -> None:
    from deep_prompted_tools import capability

    with OllamaStub(Script(then=Turn("hi"))) as stub:
        await agent_of(model_of(stub), tmp_path).run("go")
        capability._known.clear()  # what a process knows ends with it
        await agent_of(model_of(stub), tmp_path).run("go")
        assert stub.statuses == [400, 200, 200]


async def test_the_file_names_server_and_model_without_credentials(tmp_path: Path) -> None:
    with OllamaStub(Script(then=Turn("hi"))) as stub:
        url = stub.base_url.replace("http://", "http://me:secret@")
        await agent_of(OpenAIChatModel("gemma3:4b", provider=OllamaProvider(base_url=url)), tmp_path).run("go")
    text = (tmp_path / FILE).read_text()
    assert "gemma3:4b" in text
    assert "secret" not in text


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"models": 3}', '{"models": {"x": "y", "z": true}}', "[" * 100_000])
async def test_a_damaged_file_counts_as_empty(damage: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(damage)
    assert read_refused(tmp_path / FILE) == {}
    with OllamaStub(Script(then=Turn("hi"))) as stub:
        await agent_of(model_of(stub), tmp_path).run("go")
        assert stub.statuses == [400, 200]
    assert len(read_refused(tmp_path / FILE)) == 1


async def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path: Path) -> None:
    def folder() -> Path:
        raise PermissionError("read-only home")

    with OllamaStub(Script(then=Turn("hi"))) as stub:
        agent: Agent[Any, Any] = Agent(model_of(stub), capabilities=[PromptedTools(folder=folder)])
        agent.tool_plain(_look)
        assert (await agent.run("go")).output == "hi"
        await agent.run("go")
        assert stub.statuses == [400, 200, 200]


def _look() -> str:
    """Look."""
    return "nothing"


def test_what_was_learned_is_forgotten_after_a_month(tmp_path: Path) -> None:
    path = tmp_path / FILE
    write_refused(path, "old", now=lambda: 0.0)
    write_refused(path, "new", now=lambda: 86_400.0)
    assert set(read_refused(path, now=lambda: DAYS * 86_400 + 1)) == {"new"}


@pytest.mark.parametrize(
    ("status", "message", "refuses"),
    [
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools", True),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', True),
        (400, 'tool_choice="required" requires --enable-auto-tool-choice and --tool-call-parser to be set', True),
        (500, "tools param requires --jinja flag", True),
        (404, 'No endpoints found that support tool use. Try disabling "double".', True),
        (400, "`tools` is not supported with this model", True),
        (400, "deepseek-reasoner does not support Function Calling", True),
        (400, "This model doesn't support tool use.", True),
        (400, "Function calling is not enabled for this model", True),
        (400, "Invalid schema for function 'double': 'x' is not supported", False),
        (400, "tool_choice 'required' is not supported when thinking is enabled", False),
        (400, "maximum context length is 8192 tokens", False),
        (400, "this model does not support image input", False),
        (401, "does not support tools", False),
        (429, "does not support tools", False),
        (404, "model 'gemma3:4b' not found", False),
    ],
)
def test_what_counts_as_a_refusal(status: int, message: str, refuses: bool) -> None:
    for body in ({"message": message}, {"error": {"message": message}}, {"error": message}, message):
        assert refuses_tools(ModelHTTPError(status, "m", body)) is refuses
    assert not refuses_tools(ModelHTTPError(status, "m", None))


async def test_an_error_of_a_request_without_tools_says_nothing_about_them(tmp_path: Path) -> None:
    with OpenAIStub(Script(Failure(400, "the document says: this does not support tools"))) as stub:
        agent: Agent[Any, Any] = Agent(model_of(stub), capabilities=[PromptedTools(folder=lambda: tmp_path)])
        with pytest.raises(ModelHTTPError, match="the document says"):
            await agent.run("go")
        assert stub.statuses == [400]
    assert not (tmp_path / FILE).exists()


@either
async def test_another_error_passes(streamed: bool) -> None:
    with OpenAIStub(Script(Turn("hi"))) as stub:
        agent = agent_of(model_of(stub))
        agent.tool_plain(_look, name="bad name")
        with pytest.raises(ModelHTTPError, match="bad name"):
            await run(agent, streamed)
        assert stub.statuses == [400]


# -- models that have tools --------------------------------------------------------------------------------------------


@either
async def test_a_model_with_tools_gets_the_same_bytes(streamed: bool) -> None:
    bodies: list[list[bytes]] = []
    for with_plugin in (True, False):
        with OpenAIStub(Script(Turn(calls=(Call("double", {"number": 21}),)), Turn("42"))) as stub:
            agent = agent_of(openai_model(stub), mode="auto" if with_plugin else "never")
            assert (await run(agent, streamed)).output == "42"
            bodies.append(stub.bodies)
    assert bodies[0] == bodies[1]


async def test_a_model_that_took_tools_is_no_longer_wrapped() -> None:
    with OpenAIStub(Script(Turn("hi"), Turn("ho"))) as stub:
        model, capability = openai_model(stub), PromptedTools()
        assert isinstance(capability.get_wrapper_model(model), WatchedModel)
        agent: Agent[Any, Any] = Agent(model, capabilities=[capability])
        await agent.run("go")
        assert isinstance(capability.get_wrapper_model(model), WatchedModel)  # no tools were sent: nothing is known
        agent.tool_plain(_look)
        await agent.run("go")
        assert capability.get_wrapper_model(model) is None


async def test_never_leaves_a_model_without_tools_alone() -> None:
    assert PromptedTools("never").get_wrapper_model(TextModel("hi")) is None
    with OllamaStub(Script(Turn("hi"))) as stub, pytest.raises(ModelHTTPError, match="does not support tools"):
        await agent_of(model_of(stub), mode="never").run("go")


async def test_always_writes_tools_for_a_model_that_has_them() -> None:
    with OpenAIStub(Script(Turn(CALL), Turn("42"))) as stub:
        assert (await agent_of(openai_model(stub), mode="always").run("go")).output == "42"
        assert not any("tools" in request for request in stub.requests)


async def test_a_profile_without_tools_is_asked_for_none() -> None:
    with OllamaStub(Script(Turn(CALL), Turn("42"))) as stub:
        provider = OllamaProvider(base_url=stub.base_url)
        model = OpenAIChatModel("gemma3:4b", provider=provider, profile={"supports_tools": False})
        assert (await agent_of(model).run("go")).output == "42"
        assert stub.statuses == [200, 200]


@either
async def test_candidates_of_a_fallback_model_are_looked_at_one_by_one(streamed: bool) -> None:
    with OpenAIStub(Script(Failure(503, "busy"))) as busy, OllamaStub(Script(Turn(CALL), Turn("42"))) as stub:
        model = FallbackModel(openai_model(busy), model_of(stub))
        agent = agent_of(model)
        # The first has tools and is busy; the second refuses them and gets them as text.
        assert (await run(agent, streamed)).output == "42"
        assert "tools" in busy.requests[0]
        assert stub.statuses == [400, 200, 200]


@either
async def test_a_fallback_of_text_only_models(streamed: bool) -> None:
    model = FallbackModel(TextModel(CALL, "42"), TextModel("never asked"))
    assert (await run(agent_of(model), streamed)).output == "42"
    assert PromptedTools("never").get_wrapper_model(model) is None


def test_a_wrong_mode_is_no_option(make_agent: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="mode"):
        make_agent(TextModel("hi"), mode="sometimes")
