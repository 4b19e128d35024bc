"""Files on their way to one model: what it does not take becomes words, in what is sent and not in what is stored.

A file that a provider refuses is in every later request, too: the session would never get another answer
(anthropics/claude-code#46127). Another model may take it, so the conversation keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast, get_args

from pydantic_ai.messages import (
    BaseToolReturnPart,
    BinaryContent,
    DocumentMediaType,
    FilePart,
    FileUrl,
    ModelMessage,
    ModelResponse,
    TextPart,
    UploadedFile,
    UserPromptPart,
)

from .media import is_text
from .messages import with_parts

__all__ = ["TEXT_DOCUMENTS", "files_of", "fitted"]

File = FileUrl | BinaryContent | UploadedFile
_DOCUMENTS: Final[frozenset[str]] = frozenset(get_args(DocumentMediaType))
TEXT_DOCUMENTS: Final = frozenset(each for each in _DOCUMENTS if is_text(each))
"""Documents that adapters write into the prompt."""
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "image": ("supports_image_input", "pictures"),
    "audio": ("supports_audio_file_input", "recordings"),
    "video": ("supports_video_input", "videos"),
    "document": ("supports_document_input", "documents"),
}
"""Kind of a file -> the key of Pydantic AI's profiles, and words."""
REFUSED: Final = "the model's provider does not accept it"


def fitted(
    messages: Sequence[ModelMessage], profile: Mapping[str, Any], refused: Collection[str] = ()
) -> list[ModelMessage]:
    """Return messages with words for the files that a model does not take; those without one are the same objects.

    Args:
        messages: of a request.
        profile: of the model.
        refused: identifiers of files that its provider refused.
    """
    return [_message(message, profile, refused) for message in messages]


def files_of(messages: Sequence[ModelMessage]) -> list[set[str]]:
    """Return the identifiers of the files of each message that has one, the oldest first."""
    found: list[set[str]] = []
    for message in messages:
        files: set[str] = set()
        for part in message.parts:
            _collect(getattr(part, "content", None), files)
        if files:
            found.append(files)
    return found


def _collect(value: Any, files: set[str]) -> None:
    if isinstance(value, File):
        files.add(value.identifier)
    elif isinstance(value, Mapping):
        for item in cast("Mapping[Any, Any]", value).values():
            _collect(item, files)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            _collect(item, files)


def _message(message: ModelMessage, profile: Mapping[str, Any], refused: Collection[str]) -> ModelMessage:
    parts: list[Any] = [_part(part, profile, refused) for part in message.parts]
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    if isinstance(message, ModelResponse):
        return with_parts(message, parts)
    return replace(message, parts=parts)


def _part(given: Any, profile: Mapping[str, Any], refused: Collection[str]) -> Any:
    content: Any = getattr(given, "content", None)
    if isinstance(given, FilePart):
        # The model made it: a profile says what it reads.
        made = _item(content, {}, refused)
        return TextPart(made) if isinstance(made, str) else given
    if not isinstance(given, UserPromptPart | BaseToolReturnPart) or isinstance(content, str):
        return cast("Any", given)
    made = _value(content, profile, refused)
    return cast("Any", given) if made is content else replace(cast("Any", given), content=made)


def _value(value: Any, profile: Mapping[str, Any], refused: Collection[str]) -> Any:
    if isinstance(value, File):
        return _item(value, profile, refused)
    if isinstance(value, Mapping):
        table = cast("Mapping[Any, Any]", value)
        made = {key: _value(item, profile, refused) for key, item in table.items()}
        return made if any(made[key] is not table[key] for key in made) else table
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        new = [_value(item, profile, refused) for item in items]
        return items if all(a is b for a, b in zip(new, items, strict=True)) else new
    return value


def _item(item: File, profile: Mapping[str, Any], refused: Collection[str]) -> File | str:
    if refused and item.identifier in refused:
        return _words(item, REFUSED)
    kind, media_type = _kind(item), _media_type(item)
    if kind not in _KINDS or isinstance(item, UploadedFile):  # a profile says nothing of what was uploaded
        return item
    key, plural = _KINDS[kind]
    takes = profile.get(key, True)
    if takes and kind == "document" and media_type in _DOCUMENTS:
        takes = media_type in profile.get("supported_document_media_types", _DOCUMENTS)
        plural = f"documents of the type {media_type}"
    if takes:
        return item
    if isinstance(item, BinaryContent) and is_text(media_type):
        return f"[file {item.identifier}, {media_type}]\n{item.data.decode('utf-8', 'replace')}"
    return _words(item, f"this model reads no {plural}")


def _kind(item: File) -> str:
    if isinstance(item, FileUrl):
        kind: str = cast("Any", item).kind
        return kind.removesuffix("-url")
    family = item.media_type.partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"


def _media_type(item: File) -> str:
    try:
        return item.media_type
    except ValueError:  # an address that does not say it
        return ""


def _words(item: File, why: str) -> str:
    size = f" of {len(item.data):,} bytes" if isinstance(item, BinaryContent) else ""
    return f"[left out: the file {item.identifier}, {_media_type(item) or 'of an unknown type'}{size}: {why}]"
