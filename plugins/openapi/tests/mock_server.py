"""A server made from a document: openapi-core, which we do not run on, says whether each request is valid by it."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["MockServer", "example"]


class Handler(BaseHTTPRequestHandler):
    """One request, checked."""

    server: Any

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True
        mock: MockServer = self.server.mock
        mock.seen.append((self.command, self.path, dict(self.headers), body))
        status, headers, answer = mock.reply(self.command, self.path, dict(self.headers), body)
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(answer)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class MockServer:
    """A server on loopback.

    Attributes:
        seen: method, path with query, headers and body of each request.
        pages: path with query -> the headers and body of its answer; any other path gets `{"ok": true}`.
        problems: why requests were not valid by the document.
    """

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.problems: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.mock = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._oracle: Any = None
        if document is not None:
            import openapi_core

            served = {**document, "servers": [{"url": self.url}]}
            patches: Any = {"application/merge-patch+json": json.loads}
            config = openapi_core.Config(extra_media_type_deserializers=patches)
            self._oracle = openapi_core.OpenAPI.from_dict(served, config=config)
        threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._oracle is not None and (problem := self._problem(method, path, headers, body)):
            self.problems.append(f"{method} {path} {body!r}: {problem}")
            return 400, {}, json.dumps({"problem": problem}).encode()
        return self.pages.get(path, (200, {}, b'{"ok": true}'))

    def _problem(self, method: str, path: str, headers: dict[str, str], body: bytes) -> str:
        from openapi_core.exceptions import OpenAPIError
        from openapi_core.testing import MockRequest
        from werkzeug.datastructures import ImmutableMultiDict

        parts = urlsplit(path)
        pairs = [pair.strip().split("=", 1) for pair in headers.get("Cookie", "").split(";") if "=" in pair]
        cookies = {name: unquote(value) for name, value in pairs}
        request = MockRequest(
            host_url=self.url,
            method=method.lower(),
            path=unquote(parts.path),  # as frameworks give it
            args=ImmutableMultiDict(parse_qsl(parts.query, keep_blank_values=True)),  # type: ignore[arg-type]
            headers=headers,
            cookies=cookies,
            data=body or None,
            content_type=headers.get("Content-Type", ""),
        )
        try:
            self._oracle.validate_request(request)
        except OpenAPIError as error:
            return f"{type(error).__name__}: {error} {error.__cause__}"
        return ""


def example(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a value that a tool's schema allows, drawn by chance."""
    while "$ref" in schema:
        beside = schema.get("properties")
        schema = defs[schema["$ref"].rpartition("/")[2]]
        schema = {"allOf": [schema, {"properties": beside, "required": [*beside]}]} if beside else schema
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return example(rng.choice(parts), rng, defs, depth + 1)
    if parts := schema.get("allOf"):
        drawn = [example(part, rng, defs, depth + 1) for part in parts]
        return {key: value for each in drawn for key, value in each.items()}
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(rng.choice(cast("list[str]", kind)) if isinstance(kind, list) else kind)
    return _DRAWS[kind](schema, rng, defs, depth)


def _object(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int) -> Any:
    needed, out = schema.get("required", ()), dict[str, Any]()
    for name, part in schema.get("properties", {}).items():
        if name in needed or (depth < 6 and rng.random() < 0.7):
            out[name] = example(part, rng, defs, depth + 1)
    if isinstance(extra := schema.get("additionalProperties"), dict):
        out |= {f"key{n}": example(extra, rng, defs, depth + 1) for n in range(rng.randint(1, 3))}
    return out


def _array(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int) -> Any:
    least = schema.get("minItems", 0)
    most = max(least, min(schema.get("maxItems", 3), 0 if depth > 6 else 3))
    return [example(schema.get("items", {}), rng, defs, depth + 1) for _ in range(rng.randint(least, most))]


def _string(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int) -> Any:
    if schema.get("contentEncoding") == "base64":
        return "AAECAw=="
    if "pattern" in schema:
        return str(rng.randint(1, 9_999))
    letters = "abcXYZ019 -_~?#&=+%:.,;|"
    least, most = max(1, schema.get("minLength", 1)), schema.get("maxLength", 8)
    # What separates values of a list cannot stand in a value: OpenAPI says so itself.
    text = "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))
    return "a" + text.translate(dict.fromkeys(map(ord, ",;|. "), "-"))[1:]


def _number(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int) -> Any:
    return round(
        rng.uniform(schema.get("minimum", schema.get("exclusiveMinimum", 0)) + 0.25, schema.get("maximum", 9)), 2
    )


def _integer(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int) -> Any:
    return rng.randint(schema.get("minimum", 0), schema.get("maximum", 99))


def _boolean(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int) -> Any:
    return rng.random() < 0.5


def _null(schema: Any, rng: random.Random, defs: Mapping[str, Any], depth: int) -> Any:
    return None


_DRAWS: Mapping[str, Any] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
}
