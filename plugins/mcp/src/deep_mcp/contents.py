"""Read the contents of a result as a server sent them: each part by itself."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from pydantic_ai.messages import BinaryContent

__all__ = ["read_contents", "read_messages", "read_result"]

Parts: TypeAlias = "list[str | BinaryContent]"
_SPACE = re.compile(r"\s+")
_ODD_CHARS = 2_000


def read_result(raw: Mapping[str, Any]) -> tuple[Parts, bool]:
    """Return the parts of a call's result, and whether the tool failed.

    Where a tool gives text and `structuredContent`, and they differ, both are there: the text is what was written for
    the model (anthropics/claude-code#55677).
    """
    failed = raw.get("isError", False)
    parts = read_contents(raw.get("content"))
    structured: Any = raw.get("structuredContent")
    if structured not in (None, {}, []) and not _says(parts, structured):
        parts.append(structured if isinstance(structured, str) else json.dumps(structured, ensure_ascii=False))
    return parts, failed is True or failed == "true"


def _says(parts: Parts, structured: Any) -> bool:
    """Whether the text says what the structured content says."""
    texts = [part for part in parts if isinstance(part, str)]
    values = [_value(text) for text in texts]
    forms = [structured, _unwrapped(structured)]
    return any(form in (*values, *texts) or form in (values, texts) or str(form) in texts for form in forms)


def _unwrapped(structured: Any) -> Any:
    """A single value in an object: the SDKs wrap what is no object, and servers a text, to have a schema for it."""
    values: list[Any] = [*cast("dict[str, Any]", structured).values()] if isinstance(structured, dict) else []
    wraps = len(values) == 1 and ("result" in structured or isinstance(values[0], str))
    return values[0] if wraps else cast("Any", structured)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_contents(contents: Any) -> Parts:
    """Return the parts of a list of contents, whatever it is."""
    if contents is None:
        return []
    items = cast("list[Any]", contents) if isinstance(contents, list) else [contents]
    return [part for item in items for part in _read(item)]


def read_messages(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the role and the text of each message of a prompt."""
    messages: Any = raw.get("messages")
    out: list[tuple[str, str]] = []
    for item in cast("list[Any]", messages) if isinstance(messages, list) else ():
        message = cast("dict[str, Any]", item) if isinstance(item, dict) else {"content": item}
        role: Any = message.get("role")
        texts = [part if isinstance(part, str) else _left_out(part) for part in read_contents(message.get("content"))]
        out.append((role if isinstance(role, str) else "user", "\n".join(texts)))
    return out


def _left_out(file: BinaryContent) -> str:
    return f"[left out: {file.media_type}]"


def _read(item: Any) -> Parts:
    if isinstance(item, str):
        return [item]
    if not isinstance(item, dict):
        return [] if item is None else [_odd(item)]
    part = cast("dict[str, Any]", item)
    kind: Any = part.get("type")
    if kind in ("image", "audio"):
        return [_file(part, "data", kind)]
    if kind == "resource_link":
        return [_link(part)]
    if kind == "resource" or (kind is None and ("uri" in part or "blob" in part)):
        resource: Any = part.get("resource", part)
        return _resource(cast("dict[str, Any]", resource)) if isinstance(resource, dict) else [_odd(part)]
    if isinstance(text := part.get("text"), str) and kind in ("text", None):
        return [text]
    return [_odd(part)]


def _resource(resource: dict[str, Any]) -> Parts:
    if isinstance(text := resource.get("text"), str):
        return [text]
    if "blob" in resource:
        return [_file(resource, "blob", "file")]
    return [_link(resource)] if resource.get("uri") else [_odd(resource)]


def _link(part: Mapping[str, Any]) -> str:
    """A link to a resource, with what the server says of it: the address alone says little (`notes://17`)."""

    def of(key: str) -> str:
        value = part.get(key)
        return " ".join(value.split()) if isinstance(value, str) else ""

    about = [f"{of('title') or of('name') or 'without a name'}: {of('uri') or 'without an address'}", of("mimeType")]
    if isinstance(size := part.get("size"), int):
        about.append(f"{size:,} bytes")
    text = f"[resource {', '.join(each for each in about if each)}]"
    return f"{text} {of('description')}" if of("description") else text


def _file(part: Mapping[str, Any], key: str, kind: str) -> str | BinaryContent:
    data: Any = part.get(key)
    said: Any = part.get("mimeType")
    media_type = said if isinstance(said, str) and said else "application/octet-stream"
    if not isinstance(data, str):
        return f"[left out: {kind} ({media_type}): it has no data]"
    if data.startswith("data:"):
        data = data.partition(",")[2]
    try:
        content = base64.b64decode(_SPACE.sub("", data).replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return f"[left out: {kind} ({media_type}): its data are not base64]"
    if not content:
        return f"[left out: {kind} ({media_type}): it is empty]"
    from pydantic_ai.messages import BinaryContent  # `deep mcp list` needs none: half a second

    return BinaryContent(content, media_type=media_type)


def _odd(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"[a part of no known kind: {text[:_ODD_CHARS]}{'…' if len(text) > _ODD_CHARS else ''}]"
