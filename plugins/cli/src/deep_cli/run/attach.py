"""Attach files to a message: text in an element that it cannot close, pictures as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from deep_core.plugin_api import visible

from ..failure import USAGE, Failure

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

__all__ = [
    "Attachment",
    "Message",
    "NotAttached",
    "as_prompt",
    "check_pictures",
    "read_attachment",
    "read_files",
    "takes_pictures",
    "with_files",
]

Message: TypeAlias = "str | Sequence[UserContent]"
"""What goes to the model: a text, or one with pictures."""
PICTURE_BYTES = 5_000_000
"""Most bytes of a picture. Anthropic's interface refuses a larger one."""


class NotAttached(ValueError):
    """A file cannot be attached; the text says why."""


@dataclass(frozen=True)
class Attachment:
    """A file that goes with a message.

    Attributes:
        name: as the model reads it.
        text: its text; None for a picture.
        data: the bytes of a picture.
        media_type: of a picture.
    """

    name: str
    text: str | None = None
    data: bytes = b""
    media_type: str = ""

    @property
    def about(self) -> str:
        """What it is, in few words."""
        if self.text is None:
            return f"a picture of {len(self.data):,} bytes"
        lines = len(self.text.splitlines())
        return f"{lines:,} {'line' if lines == 1 else 'lines'}"


def read_attachment(path: Path, name: str) -> Attachment:
    """Read a file: UTF-8 text, or a PNG, JPEG, GIF or WebP picture.

    Raises:
        NotAttached: it cannot be read, is neither, or is too large a picture.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotAttached(error.strerror or str(error)) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return Attachment(name, text)
    from deep_sessions import recognized

    kind = recognized(data)
    if kind is None or not kind.media_type.startswith("image/"):
        raise NotAttached("not UTF-8 text, nor a PNG, JPEG, GIF or WebP picture")
    if len(data) > PICTURE_BYTES:
        raise NotAttached(f"a picture may have {PICTURE_BYTES:,} bytes, and it has {len(data):,}: make it smaller")
    return Attachment(name, data=data, media_type=kind.media_type)


def takes_pictures(model: object) -> bool:
    """Whether a model takes pictures, as far as it is known."""
    from pydantic_ai.models import Model

    if not isinstance(model, Model):
        return True
    try:
        return bool(model.profile.get("supports_image_input", True))
    except NotImplementedError:  # one of several models
        return True


def with_files(task: str, files: Sequence[Path], most: int, given: str = "", *, model: object = None) -> Message:
    """Attach files to the task.

    Args:
        task: the user's task.
        files: as for `read_files`.
        most: likewise.
        given: likewise.
        model: gets the task; None if it is not known.

    Raises:
        Failure: a file cannot be read, they are too large, or the model takes no pictures.
    """
    attachments = read_files(files, most, given)
    check_pictures(attachments, model)
    return as_prompt(task, attachments)


def read_files(files: Sequence[Path], most: int, given: str = "") -> list[Attachment]:
    """Read the files of `--file`.

    Args:
        files: text files, each read whole, and pictures.
        most: maximum characters of all text files together.
        given: what was piped to the command, attached as a file named `stdin`.

    Raises:
        Failure: a file cannot be read, or they are too large.
    """
    attachments: list[Attachment] = []
    left = most
    for path in files:
        try:
            attachment = read_attachment(path, path.name)
        except NotAttached as error:
            hint = "; put the file into the folder and name it in the task" if path.is_file() else ""
            raise Failure(f"--file {path}: {error}{hint}", USAGE) from error
        left -= len(attachment.text or "")
        if left < 0:
            raise Failure(
                f"--file {path}: the attached files have more than {most:,} characters; leave the file in the folder "
                "and name it in the task (the agent reads it in pages), or raise "
                "[plugins.cli] options.attach_chars",
                USAGE,
            )
        attachments.append(attachment)
    if given:
        if len(given) > left:
            raise Failure(
                f"stdin: what is attached has more than {most:,} characters; put it into a file in the folder and name "
                "it in the task, or raise [plugins.cli] options.attach_chars",
                USAGE,
            )
        attachments.append(Attachment("stdin", given))
    return attachments


def check_pictures(attachments: Sequence[Attachment], model: object) -> None:
    """Check that a model takes the pictures among the attachments.

    Raises:
        Failure: it takes none.
    """
    picture = next((each.name for each in attachments if each.text is None), None)
    if picture is not None and not takes_pictures(model):
        raise Failure(f"--file {picture}: this model takes no pictures; choose another with --model", USAGE)


def as_prompt(task: str, attachments: Sequence[Attachment]) -> Message:
    """Return a message with its attachments: a text, unless there are pictures."""
    text = "\n\n".join([task, *(_wrap(each.name, each.text) for each in attachments if each.text is not None)])
    pictures = [each for each in attachments if each.text is None]
    if not pictures:
        return text
    from pydantic_ai.messages import BinaryContent

    named = "\n\n".join([text, *(f"(picture: {_label(each.name)})" for each in pictures)])
    return [named, *(BinaryContent(each.data, media_type=each.media_type) for each in pictures)]


def _wrap(name: str, text: str) -> str:
    tag = "file"
    while f"</{tag}" in text:
        tag += "_"
    return f'<{tag} name="{_label(name)}">\n{text}\n</{tag}>'


def _label(name: str) -> str:
    return visible(name).replace('"', "'").replace("\n", " ").replace("<", "(").replace(">", ")")
