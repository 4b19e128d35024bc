"""The door: what enters a conversation can be sent, whatever brought it, and one bad part costs itself."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest
from deep_sessions import AgentDeps, DeepAgent, MemoryStore
from deep_sessions.door.media import clean_file, clean_url
from deep_sessions.door.messages import clean_message, clean_response
from deep_sessions.door.nulls import without_nulls
from deep_sessions.door.text import MOST_CHARS, clean, clean_name
from deep_sessions.door.values import clean_result
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from deep_core import create_default_deps
from plugins.sessions.tests.scripted import Scripted, call, kernel

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain", "plain"),
        ("déjà 👍", "déjà 👍"),
        ("half \ud83d of it", "half \ufffd of it"),
        ("the other \udc4d half", "the other \ufffd half"),
        ("both halves \ud83d\udc4d", "both halves 👍"),
        ("a stray \udce9 byte", "a stray \ufffd byte"),
        ("nul \0 nul", "nul \ufffd nul"),
        ("é\0\ud83d", "é\ufffd\ufffd"),
    ],
)
def test_a_text_is_made_one_that_can_be_written(given: str, expected: str) -> None:
    assert clean(given) == expected


def test_a_text_that_can_be_written_stays_the_same_object() -> None:
    for text in ("plain", "déjà 👍"):
        assert clean(text) is text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("read_file", "read_file"),
        ("a.b", "a.b"),
        ("nope", "nope"),
        ("what is this?", "what_is_this"),
        ("tools.read", "tools_read"),
        ("", "unknown"),
        (None, "unknown"),
        ("…", "unknown"),
        ("1st", "_1st"),
        ("x" * 100, "x" * 64),
        ("\ud83dname", "name"),
        ("read file", "read_file_unknown"),
    ],
)
def test_the_name_of_a_tool_that_is_not_offered_can_be_sent_back(given: object, expected: str) -> None:
    assert clean_name(given, frozenset({"read_file", "a.b"})) == expected


# -- files -------------------------------------------------------------------------------------------------------------


def chunk(kind: bytes, body: bytes, *, damaged: bool = False) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body) ^ damaged)


def png(*more: bytes, pixels: bytes | None = None, size: tuple[int, int] = (2, 2), end: bool = True) -> bytes:
    rows = b"\0" + b"\xff\0\0" * 2 + b"\0" + b"\0\0\xff" * 2
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows) if pixels is None else pixels)
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + body + (chunk(b"IEND", b"") if end else b"")


PNG = png()
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xc0\x00\x0b\x08\x00\x02\x00\x02\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\xd2\xcf\xff\xd9"
)
WEBP = base64.b64decode("UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAgA0JaQAA3AA/vuUAAA=")
PDF = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n"
WAV = b"RIFF\x24\0\0\0WAVEfmt " + b"\0" * 32
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><text>hi</text></svg>'
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 40


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (PNG + b"behind the end", "image/png"),
        (png(chunk(b"tEXt", b"Comment\0hello")), "image/png"),
        (JPEG, "image/jpeg"),
        (JPEG + b"\0" * 9, "image/jpeg"),
        (GIF, "image/gif"),
        (WEBP, "image/webp"),
        (PDF, "application/pdf"),
        (WAV, "audio/wav"),
        (b"ID3\x04" + b"\0" * 40, "audio/mpeg"),
        (b"\0\0\0\x18ftypisom" + b"\0" * 40, "video/mp4"),
        (b"\0\0\0\x18ftypM4A " + b"\0" * 40, "audio/mp4"),
        ("words: é".encode(), "text/plain"),
        (b"<html>", "text/html"),
        (b'{"a": 1}', "application/json"),
        (b"PK\x03\x04" + b"\0" * 40, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ],
)
def test_a_file_that_is_what_it_says_is_left_alone(data: bytes, media_type: str) -> None:
    file = BinaryContent(data, media_type=media_type)
    assert clean_file(file) is file


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"", "image/png"),
        (b"", "application/pdf"),
        (b"<html>504 Gateway Time-out</html>", "image/png"),
        (b'{"error": "no such picture"}', "image/png"),
        (b"not found", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "image/png"),
        (PNG[:40], "image/png"),
        (PNG[:-12], "image/png"),
        (png(end=False), "image/png"),
        (png(pixels=b"no zlib"), "image/png"),
        (png(pixels=zlib.compress(b"\0" * 7)), "image/png"),
        (png(size=(0, 2)), "image/png"),
        (png(size=(1 << 20, 1 << 20)), "image/png"),
        (b"BM=" + b"\0" * 40, "image/png"),
        (b"II*\0" + b"\0" * 40, "image/tiff"),
        (HEIC, "image/heic"),
        (HEIC, "image/jpeg"),
        (JPEG[:30], "image/jpeg"),
        (JPEG[:-2], "image/jpeg"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (GIF[:9], "image/gif"),
        (GIF[:25], "image/gif"),
        (WEBP[:28], "image/webp"),
        (PDF[:20], "application/pdf"),
        (b"hello", "application/pdf"),
        (b"hello", "audio/wav"),
        (b"\x7fELF" + bytes(range(128, 200)), "application/octet-stream"),
        (b"PK\x03\x04" + b"\0" * 40, "application/zip"),
        (b"x" * 20_000_001, "text/plain"),
    ],
)
def test_a_file_that_no_provider_takes_becomes_words(data: bytes, media_type: str) -> None:
    said = clean_file(BinaryContent(data, media_type=media_type))
    assert isinstance(said, str)
    assert said.startswith(f"[left out: {media_type} of {len(data):,} bytes: it ")


def test_a_vector_picture_becomes_words_and_its_source() -> None:
    said = clean_file(BinaryContent(SVG, media_type="image/svg+xml"))
    assert isinstance(said, str)
    assert said.startswith("[left out: image/svg+xml of 83 bytes: it is an SVG picture")
    assert "<text>hi</text>" in said


@pytest.mark.parametrize(
    ("data", "said", "is_"),
    [
        (JPEG, "image/png", "image/jpeg"),
        (PNG, "image/jpg", "image/png"),
        (PNG, "PNG", "image/png"),
        (PNG, "application/octet-stream", "image/png"),
        (PDF, "text/plain; charset=utf-8", "application/pdf"),
        (PNG, "application/pdf", "image/png"),
    ],
)
def test_a_file_under_a_wrong_name_gets_its_real_type(data: bytes, said: str, is_: str) -> None:
    made = clean_file(BinaryContent(data, media_type=said))
    assert isinstance(made, BinaryContent)
    assert (made.media_type, made.data) == (is_, data)


def test_a_damaged_chunk_that_viewers_skip_is_left_out_of_a_picture() -> None:
    odd = png(chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(b"x" * 300), damaged=True))
    made = clean_file(BinaryImage(odd, media_type="image/png"))
    assert isinstance(made, BinaryImage)
    assert made.data == PNG


@pytest.mark.parametrize("data", [b"\xff\xfeh\0i\0", b"caf\xe9", b"a\0b"])
def test_a_text_file_that_is_no_utf_8_becomes_its_text(data: bytes) -> None:
    made = clean_file(BinaryContent(data, media_type="text/plain"))
    assert made in ("hi", "caf\ufffd", "a\ufffdb")


@pytest.mark.parametrize("url", ["https://example.com/a.png", "gs://bucket/a.png", "gs://bucket/a b.png"])
def test_the_address_of_a_file_is_left_alone(url: str) -> None:
    item = ImageUrl(url)
    assert clean_url(item) is item


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.png",
        "file:///etc/passwd",
        "http://",
        "data:image/png;base64,***",
        "http://[x",
        "https://a b/c",
        "https://a/b c.png",
        "https://a:99999/b",
    ],
)
def test_an_address_that_no_provider_can_read_becomes_words(url: str) -> None:
    assert str(clean_url(ImageUrl(url))).startswith("[left out: ")


def test_a_file_in_an_address_is_looked_at() -> None:
    good = clean_url(ImageUrl("data:image/png;base64," + base64.b64encode(PNG).decode()))
    assert isinstance(good, BinaryContent)
    assert good.data == PNG
    assert isinstance(clean_url(ImageUrl("data:image/png;base64,PGh0bWw+")), str)


# -- results -----------------------------------------------------------------------------------------------------------


def circular() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize("value", [circular(), {"x": Odd()}, ToolReturn(circular())])
def test_a_result_without_json_is_a_failed_result(value: Any) -> None:
    with pytest.raises(ToolFailed, match="its result cannot be written as JSON"):
        clean_result("t", value)


@pytest.mark.parametrize("value", [None, 1, True, 0.5, "text", {"a": [1, {"b": None}]}, [], {}, ToolReturn("x")])
def test_a_result_that_can_be_sent_stays_the_same_object(value: Any) -> None:
    assert clean_result("t", value) is value


def test_each_part_of_a_result_is_looked_at_by_itself() -> None:
    picture = BinaryImage(PNG, media_type="image/png")
    made = clean_result("t", ["\ud83d", {"k\0": float("nan"), "deep": [picture]}, BinaryContent(b"", media_type="a/b")])
    assert made[0] == "\ufffd"
    assert made[1] == {"k\ufffd": "nan", "deep": [picture]}
    assert made[2].startswith("[left out: a/b")


# -- arguments ---------------------------------------------------------------------------------------------------------

SCHEMA = {
    "$defs": {"Inner": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "or_null": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "listed": {"type": ["string", "null"]},
        "anything": {},
        "mode": {"enum": ["a", "b"]},
        "inner": {"$ref": "#/$defs/Inner"},
        "many": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]},
    },
    "required": ["path"],
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"path": "a", "limit": None}, {"path": "a"}),
        ({"path": "a", "mode": None}, {"path": "a"}),
        ({"path": None}, {"path": None}),
        ({"path": "a", "or_null": None, "listed": None, "anything": None}, None),
        ({"path": "a", "unknown": None}, None),
        ({"path": "a", "inner": {"x": None}}, {"path": "a", "inner": {}}),
        ({"path": "a", "inner": None}, {"path": "a"}),
        ({"path": "a", "many": [{"x": None}, {"x": 1}]}, {"path": "a", "many": [{}, {"x": 1}]}),
        ({"path": "a", "maybe": {"x": None}}, {"path": "a", "maybe": {}}),
        ({"path": "a", "maybe": None}, None),
        ('{"path": "a", "limit": null}', '{"path": "a"}'),
        ('{"path": "null"}', None),
        ('{"path": null', None),
        ("[null]", None),
        (None, None),
    ],
)
def test_null_for_an_optional_argument_is_left_out(given: Any, expected: Any) -> None:
    assert without_nulls(given, SCHEMA) == (given if expected is None else expected)


# -- messages ----------------------------------------------------------------------------------------------------------


def poisoned() -> list[ModelMessage]:
    bad = BinaryContent(b"<html>", media_type="image/png")
    return [
        ModelRequest([UserPromptPart(["look \ud83d", bad])], instructions="be \ud83d"),
        ModelResponse(
            [
                ThinkingPart("hm \ud83d"),
                TextPart("a\0b"),
                ToolCallPart("no such tool!", {"q": "\ud83d", "n": float("inf")}, "c\ud83d"),
                FilePart(bad),
            ],
            provider_details={"x": "\ud83d"},
        ),
        ModelRequest([ToolReturnPart("no such tool!", ["\ud83d", bad, circular()[0]["again"]], "c\ud83d")]),
        ModelResponse([TextPart("ok")]),
    ]


def test_a_stored_conversation_is_repaired_part_by_part() -> None:
    made = [clean_message(message) for message in poisoned()]
    ModelMessagesTypeAdapter.dump_json(made)
    call, answer = made[1].parts[2], made[2].parts[0]
    assert isinstance(call, ToolCallPart)
    assert isinstance(answer, ToolReturnPart)
    assert call.tool_name == answer.tool_name == "no_such_tool"
    assert call.tool_call_id == answer.tool_call_id == "c\ufffd"
    assert call.args == {"q": "\ufffd", "n": "inf"}
    assert [type(part).__name__ for part in made[1].parts] == ["ThinkingPart", "TextPart", "ToolCallPart", "TextPart"]
    assert "left out" in str(made[0].parts[0])
    content: Any = answer.content
    assert content[0] == "\ufffd"
    assert content[1].startswith("[left out: image/png")
    assert [clean_message(message) for message in made] == made


def test_clean_messages_stay_the_same_objects() -> None:
    for message in (
        ModelRequest.user_text_prompt("hello"),
        ModelResponse([TextPart("hi"), ToolCallPart("t", '{"a": 1}', "c")]),
        ModelRequest([ToolReturnPart("t", {"a": [1]}, "c"), UserPromptPart(["x", ImageUrl("https://example.com/a")])]),
    ):
        assert clean_message(message) is message


def test_a_reply_keeps_the_arguments_of_its_calls() -> None:
    # The tools read those: write_file refuses half of a pair, where U+FFFD would be written.
    reply = ModelResponse([TextPart("\ud83d"), ToolCallPart("t", '{"q": "\ud83d"}')], provider_details={"x": "\ud83d"})
    made = clean_response(reply, frozenset({"t"}))
    assert made.parts[0] == TextPart("\ufffd")
    assert made.parts[1] is reply.parts[1]
    assert made.provider_details == {"x": "\ufffd"}


def test_a_result_that_is_too_long_keeps_its_begin_and_end() -> None:
    request = ModelRequest([ToolReturnPart("t", "a" * MOST_CHARS + "z", "c")])
    made = clean_message(request)
    assert len(str(made.parts[0].content)) < MOST_CHARS + 100  # pyright: ignore
    assert str(made.parts[0].content).endswith("z")  # pyright: ignore


# -- runs --------------------------------------------------------------------------------------------------------------


def half() -> str:
    """Give half of a pair."""
    return "half \ud83d of it"


def half_of(text: str) -> str:
    """Give half of a text."""
    return text[: len(text) // 2]


def table() -> dict[str, Any]:
    """Give a table."""
    return {"\udc00": [float("nan"), b"\xff\xfe", BinaryContent(b"nothing", media_type="image/png")]}


def failing() -> str:
    """Fail."""
    raise ToolFailed("nearest line: caf\udce9")


def asking() -> str:
    """Ask again."""
    raise ModelRetry("not \ud83d this")


def returned() -> ToolReturn[str]:
    """Give content besides."""
    return ToolReturn("\ud83d", content=["\ud83d", BinaryContent(b"", media_type="image/png")])


TOOLS = (half, table, failing, asking, returned)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
@pytest.mark.parametrize("stored", [False, True])
async def test_a_session_lives_whatever_a_tool_gives(tool: Any, stored: bool) -> None:
    scripted = Scripted([call(tool.__name__)], "fine", "fine again")
    if stored:
        deps = AgentDeps(model=scripted.model, session_store=MemoryStore(), kernel=kernel())
        agent = await DeepAgent.create(deps=deps, tools=[tool])
        for _ in range(2):
            assert (await agent.run("go", session_id="s")).status == "completed"
    else:
        plain = kernel()
        agent = plain.create_agent(scripted.model, tools=[tool], backend="memory", interrupt_on=False)
        result = await agent.run("go", deps=create_default_deps(kernel=plain))
        assert result.output == "fine"
        ModelMessagesTypeAdapter.dump_json(result.all_messages())
    for messages, _ in scripted.requests:
        ModelMessagesTypeAdapter.dump_json(messages)
        assert "image/png'" not in str(messages)


async def test_a_call_with_half_of_a_pair_is_refused_before_a_person_is_asked() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [TextPart("fine")] if len(messages) > 1 else [call("half_of", text="\ud83d")]
        return ModelResponse(parts, usage=RequestUsage(input_tokens=1))  # else it is estimated, from the JSON

    deps = AgentDeps(model=FunctionModel(answer), session_store=MemoryStore(), kernel=kernel())
    agent = await DeepAgent.create(deps=deps, tools=[half_of], config={"interrupt_on": {"half_of": True}})
    result = await agent.run("go", session_id="s")
    assert (result.status, result.output) == ("completed", "fine")


@pytest.mark.parametrize("prompt", ["cut \ud83d", ["see", BinaryContent(b"<html>", media_type="image/png")], ["\0"]])
async def test_a_prompt_in_code_passes_the_door(prompt: Any) -> None:
    plain = kernel()
    scripted = Scripted("fine")
    agent = plain.create_agent(scripted.model, backend="memory")
    result = await agent.run(prompt, deps=create_default_deps(kernel=plain))
    ModelMessagesTypeAdapter.dump_json(result.all_messages())
    assert "\0" not in str(scripted.requests[0][0][0].parts[0].content)  # pyright: ignore


async def test_a_poisoned_conversation_takes_the_next_message() -> None:
    plain = kernel()
    scripted = Scripted("no", "no", "fine")
    agent = plain.create_agent(scripted.model, backend="memory")
    result = await agent.run("next", message_history=poisoned(), deps=create_default_deps(kernel=plain))
    assert result.output == "fine"
    ModelMessagesTypeAdapter.dump_json(scripted.requests[0][0])
    ModelMessagesTypeAdapter.dump_json(result.all_messages())


async def test_replies_pass_the_door_also_where_they_stream() -> None:
    plain = kernel()
    scripted = Scripted([call("read/file", path="x")], "end \ud83d")
    agent = plain.create_agent(scripted.model, backend="memory", interrupt_on=False)
    async with agent.run_stream_events("go", deps=create_default_deps(kernel=plain)) as events:
        async for _ in events:
            pass
    result = events.result
    assert result is not None
    ModelMessagesTypeAdapter.dump_json(result.all_messages())
    assert "read_file'" in str(result.all_messages())
