"""What public documents write that few readers expect: each is listed, and sent as its document says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from deep_openapi.apis import Api
from deep_openapi.calls import Caller
from deep_openapi.document import Document, parse
from deep_openapi.operations import Operation, list_operations
from deep_openapi.options import ApiSettings, OpenapiOptions
from deep_openapi.problems import CallError, DocumentError
from deep_openapi.toolset import _checked  # pyright: ignore[reportPrivateUsage]
from pydantic_ai.messages import BinaryContent

from .mock_server import MockServer, example
from .structures import INTEGER, STRING, content, doc, obj, op, param, ref

pytestmark = pytest.mark.anyio
Json = dict[str, Any]
FILE: Json = {"type": "string", "format": "binary"}
PIXEL = "iVBORw0KGgo="


def operations(document: Any) -> dict[str, Operation]:
    return {each.name: each for each in list_operations(Document(document)).operations}


async def send(server: MockServer, operation: Operation, **args: Any) -> str | BinaryContent:
    _checked(operation.schema, args)
    api = Api("x", ApiSettings(spec="x", base_url=server.url), None)
    return await Caller(api, OpenapiOptions()).call(operation, args)


# -- files in forms ---------------------------------------------------------------------------------------------------

FORMS: dict[str, Json] = {
    "made of several": {"allOf": [obj(["file"], file=FILE), obj(note=STRING)]},
    "one of several": {"oneOf": [obj(["file"], file=FILE), obj(["url"], url=STRING)]},
    "by reference": ref("Form"),
    "nullable, as 3.1 says it": obj(file={"anyOf": [FILE, {"type": "null"}]}),
    "nullable, as 3.0 says it": obj(file={**FILE, "nullable": True}),
    "by its media type": obj(file={"type": "string", "contentMediaType": "application/octet-stream"}),
    "without a type": obj(file={"contentMediaType": "image/png"}),
}


@pytest.mark.parametrize("kind", FORMS)
async def test_a_file_is_sent_as_bytes_wherever_the_form_names_it(kind: str, serve: Callable[..., MockServer]) -> None:
    body = content(FORMS[kind], "multipart/form-data")
    document = doc({"/u": {"post": op("u", body=body)}}, schemas={"Form": obj(file=ref("File")), "File": FILE})
    server = serve()
    await send(server, operations(document)["u"], body={"file": PIXEL})
    assert b'name="file"; filename="file"' in server.seen[0][3]
    assert b"\r\n\r\n\x89PNG" in server.seen[0][3]


TEXTS: dict[str, Json] = {
    "base64, as 3.0 says it": {"type": "string", "format": "byte"},
    "base64, as 3.1 says it": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
    "a page": {"type": "string", "contentMediaType": "text/html"},
    "a file or an address": {"oneOf": [FILE, {"type": "string", "format": "uri"}]},
}


@pytest.mark.parametrize("kind", TEXTS)
async def test_a_text_is_no_file(kind: str, serve: Callable[..., MockServer]) -> None:
    document = doc({"/u": {"post": op("u", body=content(obj(file=TEXTS[kind]), "multipart/form-data"))}})
    server = serve()
    api = Api("x", ApiSettings(spec="x", base_url=server.url), None)
    await Caller(api, OpenapiOptions()).call(operations(document)["u"], {"body": {"file": PIXEL}})
    assert f"\r\n\r\n{PIXEL}\r\n".encode() in server.seen[0][3]


# -- bodies and paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("media", "schema", "body", "sent"),
    [
        ("image/*", FILE, PIXEL, ("image/png", b"\x89PNG\r\n\x1a\n")),
        ("image/*", FILE, "AAEC", ("application/octet-stream", b"\0\1\2")),
        ("*/*", FILE, "AAEC", ("application/octet-stream", b"\0\1\2")),
        ("*/*", obj(a=STRING), {"a": "b"}, ("application/json", b'{"a": "b"}')),
        ("application/*", STRING, "hi", ("application/json", b'"hi"')),
        ("text/*", STRING, "hi", ("text/plain", b"hi")),
        ("text/csv; charset=utf-8", STRING, "é", ("text/csv; charset=utf-8", "é".encode())),
    ],
)
async def test_a_range_of_media_types_becomes_one(
    media: str, schema: Json, body: Any, sent: tuple[str, bytes], serve: Callable[..., MockServer]
) -> None:
    server = serve()
    await send(server, operations(doc({"/u": {"put": op("u", body=content(schema, media))}}))["u"], body=body)
    _, _, headers, data = server.seen[0]
    assert (headers["Content-Type"], data) == sent


@pytest.mark.parametrize(
    ("path", "sent"),
    [("/x?action=go", "/x?action=go&p=1"), ("/x#go", "/x?p=1"), ("/?Action=Go", "/?Action=Go&p=1"), ("/x/", "/x/?p=1")],
)
async def test_an_operation_named_by_a_query_or_a_fragment(
    path: str, sent: str, serve: Callable[..., MockServer]
) -> None:
    server = serve()
    await send(server, operations(doc({path: {"get": op("go", param("p", "query"))}}))["go"], p="1")
    assert server.seen[0][1] == sent


async def test_a_call_cannot_write_the_headers_that_frame_it(serve: Callable[..., MockServer]) -> None:
    names = ["Host", "Content-Length", "Transfer-Encoding", "Connection", "Accept", "X-Own"]
    operation = operations(doc({"/h": {"get": op("h", *(param(name, "header") for name in names))}}))["h"]
    assert set(operation.schema["properties"]) == {"X-Own"}


NULLABLE: Json = {"type": ["array", "null"], "items": STRING}


@pytest.mark.parametrize(("media", "sent"), [("application/json", b"null"), ("application/x-www-form-urlencoded", b"")])
async def test_null_is_a_body_in_json(media: str, sent: bytes, serve: Callable[..., MockServer]) -> None:
    document = doc({"/n": {"put": op("n", body=content(NULLABLE, media))}}, version="3.1.0")
    server = serve(document if sent else None)  # with the document, the server refuses a call without the body
    assert await send(server, operations(document)["n"], body=None) == '{"ok": true}'
    assert server.seen[0][3] == sent


async def test_an_argument_that_makes_no_address_fails_the_call(serve: Callable[..., MockServer]) -> None:
    server = serve()
    operation = operations(doc({"/x/{id}": {"get": op("x", param("id", "path", {"type": "string"}))}}))["x"]
    with pytest.raises(CallError, match="nothing was called: URL too long"):
        await send(server, operation, id="a" * 100_000)
    assert server.seen == []


# -- schemas ----------------------------------------------------------------------------------------------------------

KIND = obj(["kind"], kind=STRING)


def pets(mapping: Json | None, cat: Json, dog: Json) -> Json:
    told = {"propertyName": "kind", **({"mapping": mapping} if mapping else {})}
    either = {"oneOf": [ref("Cat"), ref("Dog")], "discriminator": told}
    return doc({"/p": {"post": op("p", body=content(either))}}, schemas={"Base": KIND, "Cat": cat, "Dog": dog})


def based(**more: Json) -> Json:
    return {"allOf": [ref("Base"), obj(**more)]}


PETS: dict[str, Json] = {
    "mapped": pets(
        {"cat": "#/components/schemas/Cat", "dog": "#/components/schemas/Dog"}, based(lives=INTEGER), based(bark=STRING)
    ),
    "by the names of their schemas": pets(None, based(lives=INTEGER), based(bark=STRING)),
    "by what they say": pets(None, obj(["kind"], kind={"enum": ["c"]}), obj(["kind"], kind={"enum": ["d"]})),
}
VALUES = {"mapped": {"cat", "dog"}, "by the names of their schemas": {"Cat", "Dog"}, "by what they say": {"c", "d"}}


@pytest.mark.parametrize("how", PETS)
async def test_a_discriminator_says_its_values(how: str, serve: Callable[..., MockServer]) -> None:
    # The oracle takes the names of schemas for values, whatever the schemas say.
    server, operation = serve(PETS[how] if how != "by what they say" else None), operations(PETS[how])["p"]
    rng, drawn = random.Random(7), set[str]()
    for _ in range(12):
        args = example(operation.schema, rng, operation.schema["$defs"])
        drawn.add(args["body"]["kind"])
        await send(server, operation, **args)
    assert drawn == VALUES[how]
    assert server.problems == []


def test_a_base_says_what_is_made_from_it() -> None:
    base = {**KIND, "discriminator": {"propertyName": "kind", "mapping": {"cat": "Cat", "dog": "Dog"}}}
    operation = operations(doc({"/p": {"post": op("p", body=content(base))}}))["p"]
    assert operation.schema["properties"]["body"]["properties"]["kind"]["description"] == "One of: cat, dog"


def test_an_enumeration_that_is_too_long_names_a_few() -> None:
    zones = {"type": "string", "enum": [f"Zone/{n:05}" for n in range(3_000)]}
    operation = operations(doc({"/z": {"get": op("z", param("zone", "query", zones))}}))["z"]
    about = 'One of 3,000 values, such as "Zone/00000", "Zone/00001", "Zone/00002".'
    assert operation.schema["properties"]["zone"] == {"type": "string", "description": about}


def test_a_tuple_keeps_its_places() -> None:
    pair = {"type": "array", "prefixItems": [INTEGER, STRING], "items": False}
    operation = operations(doc({"/t": {"post": op("t", body=content(pair))}}, version="3.1.0"))["t"]
    _checked(operation.schema, {"body": [1, "a"]})
    for wrong in (["a", 1], [1, "a", 2]):
        with pytest.raises(ValueError, match="body"):
            _checked(operation.schema, {"body": wrong})


# -- servers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "base_url", "there"),
    [
        (None, "https://proxy.test/api", True),
        ("https://api.test/v1", "https://proxy.test/api", True),
        ("https://uploads.test", "https://api.test/v1", False),
        ("https://uploads.test", "https://uploads.test/", True),
        ("https://api.test/v2", "https://api.test/v1", False),
        ("https://{region}.api.test/{v}", "https://eu.api.test/v3", True),
        ("/v2", "https://api.test/v2", True),
        ("/v2", "https://api.test/v1", False),
    ],
)
def test_an_operation_with_a_server_of_its_own_is_offered_there(own: str | None, base_url: str, there: bool) -> None:
    document = doc({"/x": {"get": op("x", **({"servers": [{"url": own}]} if own else {}))}})
    document["servers"] = [{"url": "https://api.test/v1"}]
    assert operations(document)["x"].is_at(base_url) is there


@pytest.mark.parametrize("paths", [{}, {"/{id}": {"get": op("x")}}])
def test_a_document_without_an_operation_says_so(paths: Json) -> None:
    with pytest.raises(DocumentError, match="operations"):
        list_operations(Document({**doc(paths), "webhooks": {"paid": {"post": op("paid")}}}))


# -- YAML -------------------------------------------------------------------------------------------------------------


def test_merged_mappings_are_read() -> None:
    text = """
openapi: 3.0.0
x-both: [&page {name: page, in: query}, &old {in: header, deprecated: true}]
paths:
  /y:
    get:
      operationId: y
      parameters: [{<<: *page, schema: {type: integer}}, {<<: [*page, *old], name: own}]
"""
    (y,) = operations(parse(text.encode(), "x")).values()
    assert [(each.name, each.where) for each in y.parameters] == [("page", "query"), ("own", "query")]


@pytest.mark.slow
def test_merges_that_multiply_are_refused() -> None:
    keys = ", ".join(f"k{n}_{{0}}: 1" for n in range(100))
    lines = [f"a0: &a0 {{{keys.format(0)}}}"]
    lines += [f"a{n}: &a{n} {{<<: *a{n - 1}, {keys.format(n)}}}" for n in range(1, 300)]
    with pytest.raises(DocumentError, match="its aliases make it too large"):
        parse("\n".join(lines).encode(), "x")


# -- answers ----------------------------------------------------------------------------------------------------------

OPAQUE = bytes(range(128, 256)) * 3


@pytest.mark.parametrize(
    ("status", "kind", "body", "read"),
    [
        (204, "", b"", "(an empty answer)"),
        (304, "application/json", b"", "(an empty answer)"),
        (302, "text/html", b"moved", "moved"),
        (200, "application/pdf", b"%PDF-1.4\n" + OPAQUE, "[left out: application/pdf of 393 bytes]"),
        (200, "application/octet-stream", OPAQUE, "[left out: application/octet-stream of 384 bytes]"),
        (200, "application/octet-stream", b"a log", "a log"),
        (200, "application/octet-stream", ("é" * 800).encode(), "é" * 800),
        (200, "text/csv", "é,1".encode("latin-1"), "\N{REPLACEMENT CHARACTER},1"),
        (200, "text/csv; charset=iso-8859-1", "é,1".encode("latin-1"), "é,1"),
        (200, "application/problem+json", b"{}", "{}"),
        (200, "audio/mpeg", b"ID3" + OPAQUE, "[left out: audio/mpeg of 387 bytes]"),
    ],
)
async def test_an_answer_is_text_or_is_named(
    status: int, kind: str, body: bytes, read: str, serve: Callable[..., MockServer]
) -> None:
    server = serve()
    server.pages["/a"] = (status, {"Content-Type": kind}, body)
    assert await send(server, operations(doc({"/a": {"get": op("a")}}))["a"]) == read


@pytest.mark.parametrize(
    ("first", "following"),
    [
        ({"data": [1], "next": "/a?page=2"}, "/a?page=2"),
        ({"data": [1], "links": {"next": {"href": "?page=2"}}}, "/a?page=2"),
        ({"data": [1], "next_page": 2}, "/a?page=2"),
        ({"data": [1], "pagination": {"nextOffset": 20}}, "/a?offset=20"),
        ({"data": [1], "nextPageToken": "t/2"}, "/a?pageToken=t%2F2"),
    ],
)
async def test_pages_by_address_number_offset_and_token(
    first: Json, following: str, serve: Callable[..., MockServer]
) -> None:
    server = serve()
    known = [param("page", "query", INTEGER), param("offset", "query", INTEGER), param("pageToken", "query")]
    server.pages = {"/a": (200, {}, json.dumps(first).encode()), following: (200, {}, b'{"data": [2]}')}
    read = await send(server, operations(doc({"/a": {"get": op("a", *known)}}))["a"])
    assert [path for _, path, *_ in server.seen] == ["/a", following]
    assert str(read).endswith("[2 pages]")
