"""Files on their way to one model: what it does not take becomes words, and no session is stuck with one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from deep_sessions import AgentDeps, DeepAgent, MemoryStore
from deep_sessions.door.leaving import files_of, fitted
from openai import AsyncOpenAI
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FilePart,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from deep_core import create_default_deps
from plugins.sessions.tests.scripted import kernel
from plugins.sessions.tests.test_door import JPEG, PDF, PNG, WAV
from plugins.sessions.tests.test_door_fuzz import models

pytestmark = pytest.mark.anyio
MP4 = b"\0\0\0\x18ftypisom" + b"\0" * 40
MIDI = b"FORM\0\0\0\x20AIFF" + b"\0" * 40
DOCX = b"PK\x03\x04" + b"\0" * 40
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def sent(body: Any) -> str:
    return json.dumps(body)


FILES = {
    "recording": BinaryContent(WAV, media_type="audio/wav"),
    "odd recording": BinaryContent(MIDI, media_type="audio/aiff"),
    "video": BinaryContent(MP4, media_type="video/mp4"),
    "letter": BinaryContent(DOCX, media_type=WORD),
    "table": BinaryContent(b"a,b\n1,2\n", media_type="text/csv"),
    "data": BinaryContent(b'{"a": 1}', media_type="application/json"),
    "recording elsewhere": AudioUrl("https://example.com/a.wav"),
    "video elsewhere": VideoUrl("https://example.com/a.mp4"),
}


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("kind", [name for name in FILES if "elsewhere" not in name])
@pytest.mark.parametrize("by", ["prompt", "tool", "model"])
async def test_any_file_leaves_for_any_provider_or_becomes_words(provider: str, kind: str, by: str) -> None:
    faults: list[BaseException] = []
    file = FILES[kind]

    def look() -> Any:
        """Look."""

    plain = kernel()
    agent = plain.create_agent(models(faults)[provider], tools=[look], backend="memory", interrupt_on=False)
    history: list[Any] = [ModelRequest([UserPromptPart("go")])]
    prompt: Any = "go on"
    if by == "prompt":
        prompt = ["what is this?", file]
    elif by == "tool":
        from pydantic_ai.messages import ToolCallPart

        history += [ModelResponse([ToolCallPart("look", {}, "c1")]), ModelRequest([ToolReturnPart("look", file, "c1")])]
        history += [ModelResponse([TextPart("seen")])]
    else:
        history += [ModelResponse([TextPart("here"), FilePart(file)])]  # type: ignore[arg-type]
    deps = create_default_deps(kernel=plain)
    for _ in range(2):
        result = await agent.run(prompt, message_history=history, deps=deps)
        assert (result.output, faults) == ("fine", [])
        history, prompt = result.all_messages(), "and now?"
    assert files_of(history) or isinstance(file, BinaryContent)  # the conversation keeps what this model did not take


@pytest.mark.parametrize("kind", FILES)
def test_a_profile_says_what_is_left_out(kind: str) -> None:
    none = {f"supports_{each}_input": False for each in ("image", "document", "audio_file", "video")}
    message = ModelRequest([UserPromptPart(["look", FILES[kind]])])
    assert fitted([message], {})[0] is message
    (made,) = fitted([message], none)
    (part,) = made.parts
    assert isinstance(part, UserPromptPart)
    words = part.content[1]
    assert isinstance(words, str)
    assert words.startswith(("[left out: the file ", "[file "))
    assert ("1,2" in words or '{"a": 1}' in words) == (kind in ("table", "data"))


def test_files_are_found_in_values_of_any_shape() -> None:
    file = BinaryContent(PNG, media_type="image/png")
    other = BinaryContent(JPEG, media_type="image/jpeg")
    messages = [
        ModelRequest([UserPromptPart("go")]),
        ModelRequest([ToolReturnPart("look", {"a": [{"b": (1, file)}]}, "c1"), UserPromptPart(["x", other])]),
        ModelResponse([FilePart(file)]),
    ]
    assert files_of(messages) == [{file.identifier, other.identifier}, {file.identifier}]
    made = fitted(messages, {}, {file.identifier})
    assert files_of(made) == [{other.identifier}]
    assert made[0] is messages[0]
    assert files_of(messages) == [{file.identifier, other.identifier}, {file.identifier}]  # unchanged


# -- a provider that refuses a file ------------------------------------------------------------------------------------

REFUSALS = {
    "anthropic": (400, "Could not process image"),
    "anthropic, size": (400, "messages.7.content.2.image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes"),
    "anthropic, pixels": (
        400,
        "messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed max allowed size: "
        "8000 pixels",
    ),
    "openai": (400, "Invalid content type. image_url is only supported by certain models."),
    "openai, bytes": (400, "You uploaded an unsupported image. Please make sure your image is valid."),
    "llama.cpp": (
        500,
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ),
    "ollama": (400, "this model does not support image input"),
    "ollama, older": (500, "this model is missing data required for image input"),
    "openrouter": (404, "No endpoints found that support image input"),
    "vllm": (400, "At most 0 image(s) may be provided in one prompt."),
    "lmstudio": (400, "Model does not support images. Please use a model that does."),
    "deepseek": (400, "messages[1]: unknown variant `image_url`, expected `text`"),
    "text only": (400, "Unsupported content part type for text-only server: image_url"),
}


class Refusing:
    """A server that takes no request with one of some files.

    Args:
        refusal: status and words.
        marks: of the files, in a body.
    """

    def __init__(self, refusal: tuple[int, str], *marks: str) -> None:
        self.bodies: list[str] = []
        self._refusal, self._marks = refusal, marks

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        body = request.content.decode()
        self.bodies.append(body)
        if any(mark in body for mark in self._marks):
            status, words = self._refusal
            return httpx2.Response(status, json={"error": {"message": words, "type": "invalid_request_error"}})
        said: Any = {"id": "1", "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}
        if "messages" in str(request.url):
            content = [{"type": "text", "text": "fine"}]
            said |= {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"}
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}
            said = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return httpx2.Response(200, json=said)


def at(server: Callable[[httpx2.Request], httpx2.Response], provider: str = "openai") -> Model[Any]:
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(server))
    if provider == "anthropic":
        claude = AnthropicProvider(anthropic_client=AsyncAnthropic(api_key="none", http_client=client))
        return AnthropicModel("claude-sonnet-4-6", provider=claude, settings={"max_tokens": 1_000})
    found = OpenAIProvider(openai_client=AsyncOpenAI(api_key="none", http_client=client))
    return OpenAIChatModel("gpt-5.2", provider=found)


def mark_of(file: BinaryContent) -> str:
    return file.base64[:40]


PICTURE = BinaryContent(PNG, media_type="image/png")
OTHER = BinaryContent(JPEG, media_type="image/jpeg")


@pytest.mark.parametrize("said", REFUSALS)
async def test_a_session_goes_on_after_a_picture_that_its_provider_refuses(said: str) -> None:
    server = Refusing(REFUSALS[said], mark_of(PICTURE))
    model = at(server, "anthropic" if said.startswith("anthropic") else "openai")
    deps = AgentDeps(model=model, session_store=MemoryStore(), kernel=kernel())
    agent = await DeepAgent.create(deps=deps)
    assert (await agent.run(["what is this?", PICTURE], session_id="s")).output == "fine"
    assert len(server.bodies) == 2
    assert "does not accept it" in server.bodies[1]
    assert "what is this?" in server.bodies[1]
    assert (await agent.run("and now?", session_id="s")).output == "fine"
    assert len(server.bodies) == 3  # it is not sent again


async def test_only_what_is_new_is_left_out_where_that_helps() -> None:
    server = Refusing(REFUSALS["anthropic"], mark_of(OTHER))
    plain = kernel()
    agent = plain.create_agent(at(server), backend="memory", interrupt_on=False)
    deps = create_default_deps(kernel=plain)
    first = await agent.run(["one", PICTURE], deps=deps)
    second = await agent.run(["two", OTHER], message_history=first.all_messages(), deps=deps)
    assert second.output == "fine"
    assert mark_of(PICTURE) in server.bodies[-1]
    assert mark_of(OTHER) not in server.bodies[-1]
    # An older one that is refused all at once, for the number of pictures: all are left out.
    server = Refusing((400, "image dimensions exceed max allowed size for many-image requests"), mark_of(PICTURE))
    other = plain.create_agent(at(server), backend="memory", interrupt_on=False)
    third = await other.run("three", message_history=second.all_messages(), deps=create_default_deps(kernel=plain))
    assert third.output == "fine"
    assert len(server.bodies) == 3
    assert files_of(third.all_messages()) == [{PICTURE.identifier}, {OTHER.identifier}]  # for another model


async def test_an_error_that_is_not_about_files_stays_an_error_and_keeps_the_files() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.content.decode())
        return httpx2.Response(400, json={"error": {"message": "the image of this key is revoked"}})

    bodies: list[str] = []
    plain = kernel()
    agent = plain.create_agent(at(answer), backend="memory", interrupt_on=False)
    deps = create_default_deps(kernel=plain)
    for _ in range(2):
        bodies.clear()
        with pytest.raises(ModelHTTPError, match="revoked"):
            await agent.run(["what is this?", PICTURE], deps=deps)
        assert mark_of(PICTURE) in bodies[0]
        assert len(bodies) == 2


async def test_a_file_at_an_address_that_is_gone_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic_ai.models import openai as openai_models

    async def gone(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("404 Not Found")

    # A package in a newer Pydantic AI, one module in an older one.
    monkeypatch.setattr(getattr(openai_models, "_chat_model", openai_models), "download_item", gone)
    server = Refusing(REFUSALS["openai"], "no such mark")
    plain = kernel()
    agent = plain.create_agent(at(server), backend="memory", interrupt_on=False)
    result = await agent.run(["read", DocumentUrl("https://example.com/a.pdf")], deps=create_default_deps(kernel=plain))
    assert result.output == "fine"
    assert "does not accept it" in server.bodies[-1]


def test_a_pdf_stays_a_file_for_who_reads_it() -> None:
    message = ModelRequest([UserPromptPart([BinaryContent(PDF, media_type="application/pdf")])])
    assert fitted([message], {"supported_document_media_types": frozenset({"application/pdf"})})[0] is message
