"""Twenty structures of public documents: every operation lists, and calls are valid by the document they came from."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_openapi.apis import Api
from deep_openapi.calls import Caller
from deep_openapi.document import Document, parse
from deep_openapi.operations import METHODS, Operation, list_operations
from deep_openapi.options import ApiSettings, OpenapiOptions
from deep_openapi.problems import CallError, DocumentError
from deep_openapi.toolset import _checked  # pyright: ignore[reportPrivateUsage]

from tests.drawn import many

from .mock_server import MockServer, example
from .structures import DOCUMENTS, content, doc, large, op, param

pytestmark = pytest.mark.anyio
Json = dict[str, Any]


def caller(server: MockServer, **options: Any) -> Caller:
    settings = {key: options.pop(key) for key in ("auth", "auth_env") if key in options}
    api = Api("x", ApiSettings(spec="x", base_url=server.url, **settings), None)
    return Caller(api, OpenapiOptions(**options))


def operations(document: Json) -> dict[str, Operation]:
    listing = list_operations(Document(document))
    assert listing.left_out == ()
    return {each.name: each for each in listing.operations}


async def calls(document: Json, server: MockServer, count: int) -> None:
    rng, listed = random.Random(count), [*operations(document).values()]
    for number in range(count):
        operation = listed[number % len(listed)]
        args = example(operation.schema, rng, operation.schema.get("$defs", {}))
        _checked(operation.schema, args)
        assert await caller(server).call(operation, args) == '{"ok": true}', server.problems
    assert server.problems == []
    assert len(server.seen) == count


@pytest.mark.parametrize("make", DOCUMENTS)
def test_every_operation_lists(make: Callable[[], Json]) -> None:
    document = make()
    there = sum(method in item for item in document["paths"].values() for method in METHODS)
    assert len(operations(document)) == there


@pytest.mark.slow
@pytest.mark.parametrize("make", DOCUMENTS)
async def test_a_hundred_calls_are_valid_by_the_document(
    make: Callable[[], Json], serve: Callable[..., MockServer]
) -> None:
    await calls(make(), serve(make()), many(100, 1_000))


async def test_some_calls_are_valid_by_the_document(serve: Callable[..., MockServer]) -> None:
    document = DOCUMENTS[0]()
    await calls(document, serve(document), 6)


async def test_the_oracle_finds_a_wrong_request(serve: Callable[..., MockServer]) -> None:
    document = DOCUMENTS[0]()
    server, args = serve(document), {"owner": "a", "repo": "b", "state": "shut"}
    with pytest.raises(CallError, match="400"):
        await caller(server).call(operations(document)["issues_list-for-repo"], args)
    assert len(server.problems) == 1


# -- what exactly is sent ---------------------------------------------------------------------------------------------

LIST, OBJECT = ["a b", "c/d"], {"r": 1, "g": True}


@pytest.mark.parametrize(
    ("given", "value", "sent"),
    [
        (param("p", "path"), "a/../b c", "/x/a%2F..%2Fb%20c"),
        (param("p", "path"), LIST, "/x/a%20b,c%2Fd"),
        (param("p", "path"), OBJECT, "/x/r,1,g,true"),
        (param("p", "path", explode=True), OBJECT, "/x/r=1,g=true"),
        (param("p", "path", style="label"), LIST, "/x/.a%20b,c%2Fd"),
        (param("p", "path", style="label", explode=True), OBJECT, "/x/.r=1.g=true"),
        (param("p", "path", style="matrix"), LIST, "/x/;p=a%20b,c%2Fd"),
        (param("p", "path", style="matrix", explode=True), LIST, "/x/;p=a%20b;p=c%2Fd"),
        (param("p", "path", style="matrix", explode=True), OBJECT, "/x/;r=1;g=true"),
        (param("p", "query"), "a&b=c", "?p=a%26b%3Dc"),
        (param("p", "query"), 3.0, "?p=3"),
        (param("p", "query"), "é+", "?p=%C3%A9%2B"),
        (param("p", "query"), LIST, "?p=a%20b&p=c%2Fd"),
        (param("p", "query", explode=False), LIST, "?p=a%20b,c%2Fd"),
        (param("p", "query", explode=False), [], ""),
        (param("p", "query"), {}, ""),
        (param("p", "query"), OBJECT, "?r=1&g=true"),
        (param("p", "query", explode=False), OBJECT, "?p=r,1,g,true"),
        (param("p", "query", style="spaceDelimited", explode=False), LIST, "?p=a%20b%20c%2Fd"),
        (param("p", "query", style="pipeDelimited", explode=False), LIST, "?p=a%20b%7Cc%2Fd"),
        (param("p[]", "query", style="deepObject", explode=True), {"a": {"b": [1]}}, "?p%5B%5D%5Ba%5D%5Bb%5D%5B%5D=1"),
        (param("p", "query", allowReserved=True), "a/b&c", "?p=a/b%26c"),
    ],
)
async def test_styles(given: Json, value: Any, sent: str, serve: Callable[..., MockServer]) -> None:
    server = serve()
    path = "/x/{p}" if given["in"] == "path" else "/x"
    operation = operations(doc({path: {"get": op("go", given)}}))["go"]
    await caller(server).call(operation, {operation.parameters[0].argument: value})
    assert server.seen[0][1].removeprefix("/x" if given["in"] == "query" else "") == sent


OLD: Json = {
    "swagger": "2.0",
    "info": {"title": "old", "version": "1"},
    "consumes": ["application/json"],
    "securityDefinitions": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    "security": [{"key": []}],
    "definitions": {"Pet": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
    "paths": {
        "/pets": {
            "get": {
                "operationId": "pets",
                "parameters": [
                    {
                        "name": "tags",
                        "in": "query",
                        "type": "array",
                        "items": {"type": "string"},
                        "collectionFormat": "multi",
                    },
                    {"name": "ids", "in": "query", "type": "array", "items": {"type": "integer"}},
                ],
            },
            "post": {
                "operationId": "add",
                "parameters": [
                    {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
                ],
            },
        },
        "/pets/{id}/photo": {
            "post": {
                "operationId": "photo",
                "consumes": ["multipart/form-data"],
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "type": "integer"},
                    {"name": "file", "in": "formData", "type": "file", "required": True},
                    {"name": "note", "in": "formData", "type": "string"},
                ],
            }
        },
    },
}


async def test_swagger_2(serve: Callable[..., MockServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PETS_KEY", "sesame-1")
    server, listed = serve(), operations(OLD)
    pets = caller(server, auth_env="PETS_KEY")
    await pets.call(listed["pets"], {"tags": ["a", "b"], "ids": [1, 2]})
    await pets.call(listed["add"], {"body": {"name": "Rex"}})
    await pets.call(listed["photo"], {"id": 7, "body": {"file": "AAEC", "note": "hi"}})
    assert [(method, path) for method, path, *_ in server.seen] == [
        ("GET", "/pets?tags=a&tags=b&ids=1,2"),
        ("POST", "/pets"),
        ("POST", "/pets/7/photo"),
    ]
    assert all(headers["X-Key"] == "sesame-1" for _, _, headers, _ in server.seen)
    assert server.seen[1][3] == b'{"name": "Rex"}'
    assert b'name="file"; filename="file"' in server.seen[2][3]
    assert b"\x00\x01\x02" in server.seen[2][3]


# -- documents --------------------------------------------------------------------------------------------------------


def test_yaml_keeps_what_yaml_1_1_would_change() -> None:
    text = b"openapi: 3.0.0\ninfo: {version: 2020-01-01}\nx: [no, 12:30, 010, on, 1, 1.5, true, null, 0x1, 1e3]\n"
    found = parse(text, "x")
    assert found["info"]["version"] == "2020-01-01"
    assert found["x"] == ["no", "12:30", "010", "on", 1, 1.5, True, None, "0x1", 1000.0]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "neither JSON nor YAML"),
        (b"- a", "no mapping"),
        (b"", "it is empty"),
        (b"\xff\xfe", "neither JSON nor YAML"),
        (b"a: " + b"[" * 5_000, "neither JSON nor YAML"),
        (b'{"a":' * 100_000, "neither JSON nor YAML"),
        (b"!!python/object/apply:os.system [id]", "neither JSON nor YAML"),
    ],
)
def test_a_file_that_is_no_document(data: bytes, why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        parse(data, "x")


def test_a_bad_operation_costs_itself() -> None:
    circle = {"a": {"$ref": "#/components/parameters/b"}, "b": {"$ref": "#/components/parameters/a"}}
    document = doc(
        {
            "/good": {"get": op("good")},
            "/lost": {"get": op("lost", {"$ref": "#/components/parameters/none"})},
            "/circle": {"get": op("circle", {"$ref": "#/components/parameters/a"})},
            "/outside": {"get": op("outside", {"$ref": "https://evil.test/x.json#/p"})},
            "/{missing}": {"get": op("missing")},
            "no-slash": {"get": op("noSlash")},
            "/odd": {"get": {"parameters": "none", "responses": 3}, "post": "none"},
        },
        parameters=circle,
    )
    listing = list_operations(Document(document))
    assert [each.name for each in listing.operations] == ["good", "get__odd"]
    assert [reason.split(":")[0] for reason in listing.left_out] == [
        "GET /lost", "GET /circle", "GET /outside", "GET /{missing}", "GET no-slash",
    ]  # fmt: skip


def test_references_to_files_stay_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "specs"
    folder.mkdir()
    (tmp_path / "secret.yaml").write_text("p: {name: p, in: query, schema: {type: string}}")
    (folder / "common.yaml").write_text("p: {name: p, in: query, schema: {$ref: '#/s'}}\ns: {type: integer}")
    paths = {
        "/in": {"get": op("inside", {"$ref": "common.yaml#/p"})},
        "/out": {"get": op("outside", {"$ref": "../secret.yaml#/p"})},
    }
    listing = list_operations(Document(doc(paths), folder.resolve(), "root.yaml"))
    (inside,) = listing.operations
    assert inside.schema["properties"]["p"] == {"$ref": "#/$defs/s"}
    assert inside.schema["$defs"] == {"s": {"type": "integer"}}
    assert len(listing.left_out) == 1
    assert "outside its folder" in listing.left_out[0]


@pytest.mark.parametrize("inside", ["allOf: [{}]", "[{}]", "{{a: [{}]}}", "{{properties: {{p: {{enum: [{}]}}}}}}"])
@pytest.mark.parametrize(
    "where",
    [
        "paths: {/x: {get: {parameters: [{name: p, in: query, schema: *a11}]}}}",
        "paths: {/x: {get: {parameters: [{name: p, in: query, schema: {enum: [*a11]}}]}}}",
        "paths: {/x: {get: {parameters: [{name: p, in: query, schema: {default: *a11}}]}}}",
        "paths: {/x: {get: {summary: *a11, description: *a11, tags: *a11}}}",
        "paths: *a11",
        "servers: *a11",
        "x-own: *a11",
    ],
)
def test_a_document_whose_aliases_multiply_is_refused(inside: str, where: str) -> None:
    inside = inside if inside.startswith(("[", "{")) else "{{" + inside + "}}"
    lines = ["a0: &a0 {type: object}"]
    lines += [f"a{n}: &a{n} {inside.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, 12)]
    with pytest.raises(DocumentError, match="its aliases make it too large"):
        parse(("\n".join(lines) + f"\nopenapi: 3.0.0\n{where}\n").encode(), "x")


ODD = {
    "an anchor in itself": ("x: &x [*x]", "its aliases make it too large"),
    "an anchor in itself, as a mapping": ("x: &x {y: {z: *x}}", "its aliases make it too large"),
    "a long text, many times": (f"x: &x '{'x' * 1_000}'\ny: [{'*x, ' * 20_000}]", "its aliases make it too large"),
    "a chain of merges": ("a: &a {x: 1}\nb: {!!merge <<: *a}", "could not determine a constructor"),
    "an unknown alias": ("x: *nothing", "undefined alias"),
    "a tag of Python": ("x: !!python/object/apply:os.system ['touch ran']", "could not determine a constructor"),
    "a tag of its own": ("x: !evil {y: 1}", "could not determine a constructor"),
    "two documents": ("x: 1\n--- \ny: 2", "expected a single document"),
    "a key that is a list": ("? [a, b]\n: 1", "found unhashable key"),
    "depth": ("x: " + "[" * 5_000 + "]" * 5_000, "neither JSON nor YAML"),
    "control characters": ("x: a\x00b", "neither JSON nor YAML"),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_yaml_is_one_error(odd: str) -> None:
    text, says = ODD[odd]
    with pytest.raises(DocumentError, match=says):
        parse(f"openapi: 3.0.0\npaths: {{}}\n{text}\n".encode(), "x")


def test_aliases_that_a_person_writes_are_read() -> None:
    text = "openapi: 3.0.0\nx: &x {type: string}\n<<: 1\npaths: {}\ny: [" + "*x, " * 900 + "]"
    assert len(parse(text.encode(), "x")["y"]) == 900


def test_references_that_would_never_end_cost_their_operation() -> None:
    schemas = {f"a{n}": {"allOf": [{"$ref": f"#/components/schemas/a{n - 1}"}] * 9} for n in range(1, 12)}
    document = doc(
        {"/x": {"get": op("x", {"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/a11"}})}},
        schemas={"a0": {"type": "object"}, **schemas},
    )
    listing = list_operations(Document(document))
    assert len(repr(listing)) < 100_000


def test_a_large_schema_is_cut_and_still_lists() -> None:
    wide = {
        f"p{n}": {"type": "object", "description": "long " * 50, "properties": {"x": {"type": "string"}}}
        for n in range(90)
    }
    deep = {"type": "object", "properties": {f"q{n}": {"type": "object", "properties": wide} for n in range(9)}}
    (operation,) = operations(doc({"/x": {"post": op("big", body=content(deep))}})).values()
    assert len(json.dumps(operation.schema)) <= 8_000
    assert set(operation.schema["properties"]["body"]["properties"]) == {f"q{n}" for n in range(9)}


@pytest.mark.slow
def test_a_thousand_operations_have_a_thousand_names() -> None:
    assert len(operations(large())) == 1_000


def test_what_is_invisible_in_a_text_is_shown() -> None:
    document = doc({"/x": {"get": op("x", description="pay\u202e\u200bme")}})
    assert operations(document)["x"].description == "GET /x: Do x\npay\\u202e\\u200bme"


def test_fastapis_own_document_lists_and_is_valid() -> None:
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/items/{item}")
    def read(item: int, q: str | None = None) -> dict[str, int]:
        return {"item": item}

    (operation,) = operations(app.openapi()).values()
    assert operation.schema["required"] == ["item"]
    assert operation.schema["properties"]["q"]["anyOf"][0] == {"type": "string"}
    assert (read(1), operation.method) == ({"item": 1}, "GET")
