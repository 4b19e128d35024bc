"""`--file`: attach text files to the task, marked as data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deep_core.plugin_api import visible

from ..failure import USAGE, Failure

__all__ = ["with_files"]


def with_files(task: str, files: Sequence[Path], most: int, given: str = "") -> str:
    """Append each file's text to the task, in an element that the text cannot close.

    Args:
        task: the user's task.
        files: UTF-8 text files, each read whole.
        most: maximum characters of all files together.
        given: what was piped to the command, attached as a file named `stdin`.

    Raises:
        Failure: a file does not exist, is not UTF-8 text, or they are too large.
    """
    parts = [task]
    left = most
    for path in files:
        text = _text(path)
        left -= len(text)
        if left < 0:
            raise Failure(
                f"--file {path}: the attached files have more than {most:,} characters; leave the file in the folder "
                "and name it in the task (the agent reads it in pages), or raise "
                "[plugins.cli] options.attach_chars",
                USAGE,
            )
        parts.append(_wrap(path.name, text))
    if given:
        if len(given) > left:
            raise Failure(
                f"stdin: what is attached has more than {most:,} characters; put it into a file in the folder and name "
                "it in the task, or raise [plugins.cli] options.attach_chars",
                USAGE,
            )
        parts.append(_wrap("stdin", given))
    return "\n\n".join(parts)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Failure(f"--file {path}: {error.strerror or error}", USAGE) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Failure(
            f"--file {path}: not UTF-8 text; put the file into the folder and name it in the task",
            USAGE,
        )
    return text


def _wrap(name: str, text: str) -> str:
    tag = "file"
    while f"</{tag}" in text:
        tag += "_"
    label = visible(name).replace('"', "'").replace("\n", " ").replace("<", "(").replace(">", ")")
    return f'<{tag} name="{label}">\n{text}\n</{tag}>'
