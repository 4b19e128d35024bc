"""A call as a request: each parameter as its style says, the body as its media type says."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from .operations import Body, Credential, Operation, Parameter
from .problems import CallError

__all__ = ["Built", "build_request"]

_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
_BEGINNINGS = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"ID3": "audio/mpeg",
}
_RESERVED = ":/?[]@!$'()*,;"
Pairs = list[tuple[str, str]]
Files = list[tuple[str, tuple[str | None, bytes, str | None]]]


class Built(NamedTuple):
    """A request.

    Attributes:
        url: with its query.
        headers: without the media type of a form with files.
        content: the body; None without one.
        files: the parts of a form with files.
    """

    url: str
    headers: dict[str, str]
    content: bytes | None = None
    files: Files | None = None


def build_request(
    base_url: str, operation: Operation, args: Mapping[str, Any], credential: Credential | None, secret: str
) -> Built:
    """Build the request of a call.

    Raises:
        CallError: an argument cannot be sent.
    """
    # Documents name operations of one path by a fragment, or by a query.
    path, query, headers, cookies = operation.path.partition("#")[0], list[str](), dict[str, str](), list[str]()
    for parameter in operation.parameters:
        value = args.get(parameter.argument)
        if value is None:
            if parameter.where == "path":
                raise CallError(f"{parameter.argument} is missing")
        elif parameter.where == "path":
            path = path.replace("{" + parameter.name + "}", _path(parameter, value))
        elif parameter.where == "query":
            query += _query(parameter, value)
        elif parameter.where == "header":
            headers[parameter.name] = _header(parameter.argument, _listed(parameter, value))
        else:
            cookies.append(f"{parameter.name}={quote(_listed(parameter, value), safe=',')}")
    if credential is not None and secret:
        _add(credential, secret, query, headers, cookies)
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    content, files = None, None
    if operation.body is not None and _has_body(operation.body, args):
        content, files = _body(operation.body, args[operation.body.argument])
        if files is None:
            headers["Content-Type"] = _media_type(operation.body.media, content or b"")
    url = base_url.rstrip("/") + path
    return Built(url + ("&" if "?" in path else "?") + "&".join(query) if query else url, headers, content, files)


def _media_type(media: str, content: bytes) -> str:
    """The type in a range such as `image/*` by which the bytes begin."""
    if not media.endswith("/*"):
        return media
    begun = (kind for begin, kind in _BEGINNINGS.items() if content.startswith(begin) and kind.startswith(media[:-1]))
    return next(begun, "application/octet-stream")


def _add(credential: Credential, secret: str, query: list[str], headers: dict[str, str], cookies: list[str]) -> None:
    if credential.kind == "query":
        query.append(f"{quote(credential.name, safe='')}={quote(secret, safe='')}")
    elif credential.kind == "cookie":
        cookies.append(f"{credential.name}={quote(secret, safe='')}")
    elif credential.kind == "header":
        headers[credential.name] = secret
    elif credential.kind == "basic":
        headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    else:
        headers["Authorization"] = f"Bearer {secret}"


def _text(value: Any) -> str:
    """A scalar as text: as JSON writes it, without quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)  # the model writes 3.0 for an integer, too
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _path(parameter: Parameter, value: Any) -> str:
    def enc(each: Any) -> str:
        return quote(_text(each), safe="")

    style, explode, name = parameter.style, parameter.explode, quote(parameter.name, safe="")
    start, between = {"label": (".", "."), "matrix": (";", ";")}.get(style, ("", ","))
    if style == "json":
        text = quote(json.dumps(value, ensure_ascii=False), safe="")
    elif isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        pairs = [f"{enc(k)}={enc(v)}" for k, v in items] if explode else [f"{enc(k)},{enc(v)}" for k, v in items]
        text = between.join(pairs) if explode else (f"{name}=" if style == "matrix" else "") + ",".join(pairs)
        text = start + text
    elif isinstance(value, list):
        parts = [enc(each) for each in cast("list[Any]", value)]
        if style == "matrix":
            parts = [f"{name}={part}" for part in parts] if explode else [f"{name}={','.join(parts)}"]
        elif style == "label" and not explode:
            parts = [",".join(parts)]
        text = start + between.join(parts)
    else:
        text = start + (f"{name}=" if style == "matrix" else "") + enc(value)
    # A server, or what stands before it, may take these for another path.
    if text in ("", ".", ".."):
        raise CallError(f"{parameter.argument} may not be {text or 'empty'!r}: it is a part of the path")
    return text


def _query(parameter: Parameter, value: Any) -> list[str]:
    def enc(each: Any) -> str:
        return quote(_text(each), safe=_RESERVED if parameter.reserved else "")

    name = quote(parameter.name, safe="")
    if parameter.style == "json":
        return [f"{name}={quote(json.dumps(value, ensure_ascii=False), safe='')}"]
    if value in ([], {}):
        return []  # RFC 6570, 3.2.1. Asana refuses `opt_fields=`: "" is none of its fields
    if isinstance(value, Mapping):
        items = list(cast("Mapping[str, Any]", value).items())
        if parameter.style == "deepObject":
            return [f"{quote(key, safe='')}={enc(each)}" for key, each in _deep(parameter.name, value)]
        if parameter.explode:
            return [f"{enc(k)}={enc(v)}" for k, v in items]
        return [f"{name}={_DELIMITERS.get(parameter.style, ',').join(enc(x) for pair in items for x in pair)}"]
    if isinstance(value, list):
        parts = [enc(each) for each in cast("list[Any]", value)]
        if parameter.explode or parameter.style == "deepObject":
            return [f"{name}={part}" for part in parts]
        return [f"{name}={_DELIMITERS.get(parameter.style, ',').join(parts)}"]
    return [f"{name}={enc(value)}"]


def _deep(name: str, value: Any) -> Pairs:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return [pair for key, each in items for pair in _deep(f"{name}[{key}]", each)]
    if isinstance(value, list):
        return [pair for each in cast("list[Any]", value) for pair in _deep(f"{name}[]", each)]
    return [(name, _text(value))]


def _listed(parameter: Parameter, value: Any) -> str:
    """The style `simple`, as headers have it."""
    if parameter.style == "json":
        return json.dumps(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return ",".join(f"{k}={_text(v)}" if parameter.explode else f"{k},{_text(v)}" for k, v in items)
    return ",".join(map(_text, cast("list[Any]", value))) if isinstance(value, list) else _text(value)


def _header(argument: str, text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise CallError(f"{argument} is a header: it takes printable ASCII only")
    return text


# -- bodies ----------------------------------------------------------------------------------------------------------


def _has_body(body: Body, args: Mapping[str, Any]) -> bool:
    """Whether a call has a body. In JSON `null` is one: arguments that are checked have it where the document does."""
    return args.get(body.argument) is not None or (body.argument in args and _plain(body).endswith("json"))


def _plain(body: Body) -> str:
    return body.media.partition(";")[0].strip().lower()


def _body(body: Body, value: Any) -> tuple[bytes | None, Files | None]:
    plain = _plain(body)
    if plain == "application/x-www-form-urlencoded" and isinstance(value, Mapping):
        fields = [pair for key, each in cast("Mapping[str, Any]", value).items() for pair in _field(body, key, each)]
        return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in fields).encode(), None
    if plain.startswith("multipart/") and isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return None, [part for key, each in items for part in _parts(body, key, each)]
    if not isinstance(value, str) or plain.endswith("json"):
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), None
    if plain.startswith("text/") or plain.endswith(("xml", "yaml", "ndjson", "graphql")):
        return value.encode("utf-8", "replace"), None
    return _decoded(body.argument, value), None


def _field(body: Body, name: str, value: Any) -> Pairs:
    media, style, explode = body.encoding.get(name, ("", "form", True))
    if value is None:
        return []
    if "json" in media or (isinstance(value, Mapping) and style != "deepObject"):
        return [(name, json.dumps(value, ensure_ascii=False))]
    if style == "deepObject":
        return _deep(name, value)
    if isinstance(value, list):
        texts = [each if isinstance(each, str) else json.dumps(each) for each in cast("list[Any]", value)]
        if explode:
            return [(name, text) for text in texts]
        return [(name, {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}.get(style, ",").join(texts))]
    return [(name, _text(value))]


def _parts(body: Body, name: str, value: Any) -> Files:
    media = body.encoding.get(name, ("", "", True))[0]
    if value is None:
        return []
    if name in body.files:
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        return [(name, (name, _decoded(name, str(each)), media or "application/octet-stream")) for each in values]
    if isinstance(value, Mapping) or "json" in media:
        return [(name, (None, json.dumps(value, ensure_ascii=False).encode(), media or "application/json"))]
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [
        (
            name,
            (None, json.dumps(each, ensure_ascii=False).encode(), media or "application/json")
            if isinstance(each, Mapping | list)
            else (None, _text(each).encode("utf-8", "replace"), media or None),
        )
        for each in values
    ]


def _decoded(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CallError(f"{name} is not base64: {error}") from error
