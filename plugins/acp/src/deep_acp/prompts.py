"""Read a prompt of the editor: text, links to files, embedded files, pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from acp.exceptions import RequestError
from acp.schema import TextResourceContents
from pydantic_ai.messages import BinaryContent

from deep_core.plugin_api import visible

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

__all__ = ["command_of", "read_prompt"]

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def read_prompt(blocks: Sequence[Any], folder: str, *, pictures: bool = True) -> str | list[UserContent]:
    """Return a prompt as a message to the model.

    Text and links stay in their order. Embedded files follow, each in an element that its text cannot close.

    Args:
        blocks: the prompt's content blocks.
        folder: the session's folder; files below it are named relative to it.
        pictures: whether the model takes pictures.

    Raises:
        acp.RequestError: a block has a kind that is not supported, or cannot be read.
    """
    line: list[str] = []
    files: list[str] = []
    data: list[BinaryContent] = []
    for block in blocks:
        match block.type:
            case "text":
                line.append(block.text)
            case "resource_link":
                line.append(f"@{_name(block.uri, folder)}")
            case "resource":
                _embed(block.resource, folder, line, files, data)
            case "image":
                data.append(_picture(block.data, block.mime_type))
            case other:
                raise RequestError(-32602, f"a prompt with {other} is not supported: send text, files or pictures")
    if data and not pictures:
        raise RequestError(-32602, "the model takes no pictures: choose another model, or describe what they show")
    text = "\n\n".join(["".join(line).strip(), *files]).strip()
    if not text and not data:
        raise RequestError(-32602, "the prompt is empty: write a message")
    return [*([text] if text else []), *data] if data else text


def _embed(resource: Any, folder: str, line: list[str], files: list[str], data: list[BinaryContent]) -> None:
    name = _name(resource.uri, folder)
    line.append(f"@{name}")
    if isinstance(resource, TextResourceContents):
        files.append(_element(name, resource.text))
    elif resource.mime_type in PICTURES:
        data.append(_picture(resource.blob, resource.mime_type))
    # Any other file is named: the agent reads it with its own tools.


def _element(name: str, text: str) -> str:
    tag = "file"
    while f"</{tag}" in text:
        tag += "_"
    label = name.replace('"', "'").replace("<", "(").replace(">", ")")
    return f'<{tag} name="{label}">\n{text}\n</{tag}>'


def _name(uri: str, folder: str) -> str:
    """Return how a file is named to the model: its path below the folder, its absolute path, or the address."""
    address = urlparse(uri)
    if address.scheme != "file":
        return visible(uri)
    path = unquote(address.path)
    lines = f"#{address.fragment}" if address.fragment else ""
    below = Path(path)
    shown = below.relative_to(folder).as_posix() if below.is_relative_to(folder) else path
    return visible(shown + lines)


def _picture(data: str, mime_type: str) -> BinaryContent:
    if mime_type not in PICTURES:
        raise RequestError(
            -32602, f"a picture of type {visible(mime_type)} is not supported: {', '.join(PICTURES)} are"
        )
    try:
        return BinaryContent(base64.b64decode(data, validate=True), media_type=mime_type)
    except binascii.Error as error:
        raise RequestError(-32602, "a picture of the prompt is not base64") from error


def command_of(message: object) -> tuple[str, str] | None:
    """Return the name and the words of a message that is a command; None for any other."""
    if not isinstance(message, str) or not message.startswith("/"):
        return None
    name, _, words = message[1:].partition(" ")
    return (name, words.strip()) if name else None
