"""What the user approves always, in the terminal and on the page: rules that answer a question of the policy."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from deep_core.plugin_api import ACCEPT_EDITS, EVERY_CALL, Reason, ReasonKind, are_answered, visible

from .conversations import folder_key
from .private_files import replace_private

__all__ = ["Always", "Asked", "Rule", "Rules", "is_edit", "rules_for", "rules_of"]

SCHEMA = 2
"""Of what is kept. Rules of another schema answer nothing: those of 1 had only a tool's name."""
ANSWERS: Mapping[str, frozenset[ReasonKind]] = {
    "tool": EVERY_CALL,
    "command": frozenset({"rule", "tool", "command"}),
    "path": frozenset({"rule", "tool", "write"}),
}
"""The classes of reasons that a rule of each kind answers. It answers a question whose reasons are all among them."""
_SHELL = re.compile(r"[;&|<>()$`\\\n\r{}*?\[\]~#!]")
"""What makes more of a line than one command with its words."""
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")


class Asked(Protocol):
    """What rules read of a question, of the terminal's and of `questions_of`."""

    @property
    def plugin(self) -> str:
        """The tool's plugin."""
        ...

    @property
    def tool(self) -> str:
        """The tool."""
        ...

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments that the call would use."""
        ...

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it asks."""
        ...

    @property
    def identity(self) -> str:
        """The tool as it is now; "" if nothing says it."""
        ...

    @property
    def is_choice(self) -> bool:
        """Whether the model asks the user: no rule answers that."""
        ...


@dataclass(frozen=True)
class Rule:
    """What a question must be so that it need not be asked.

    Attributes:
        plugin: the tool's plugin.
        tool: the tool.
        kind: `tool`: every call; `command`: commands that begin with the words of `value`; `path`: changes to the file
            `value`, or to files below it if it ends with `/`.
        value: "" for a tool.
        identity: the tool as it was when the user approved. A tool that changed is another tool.
    """

    plugin: str
    tool: str
    kind: Literal["tool", "command", "path"]
    value: str = ""
    identity: str = ""

    @property
    def about(self) -> str:
        """What it covers, in words."""
        name = _label(self.tool)
        if self.kind == "command":
            return f"{name}: a single command that begins with `{_label(self.value)}`, with any words after it"
        if self.kind == "path":
            below = "any file below" if self.value.endswith("/") else "the file"
            return f"{name}: {below} {_label(self.value)}"
        return f"{name}: every call"

    def covers(self, question: Asked, folder: str) -> bool:
        """Whether it answers a question of a chat in this folder."""
        same = bool(self.identity) and self.identity == question.identity
        if not same or question.is_choice or not are_answered(question.reasons, ANSWERS[self.kind]):
            return False
        if self.kind == "tool":
            return True
        if self.kind == "command":
            words, wanted = _words(question), shlex.split(self.value)
            return words is not None and words[: len(wanted)] == wanted
        path = _path(question, folder)
        return path is not None and (path.startswith(self.value) if self.value.endswith("/") else path == self.value)


@dataclass(frozen=True)
class Always:
    """An answer: yes, and the same for every question that a rule covers.

    Attributes:
        rule: the rule.
        keep: whether to keep it for the project.
    """

    rule: Rule
    keep: bool = False


def rules_for(question: Asked, folder: str) -> list[Rule]:
    """Return the rules that would cover a question, the narrowest first; none if it asks for a reason of its own."""
    rule = partial(Rule, question.plugin, question.tool, identity=question.identity)
    rules: list[Rule] = []
    if (words := _words(question)) is not None:
        count = 2 if len(words) > 1 and _SUBCOMMAND.fullmatch(words[1]) else 1
        rules.append(rule("command", shlex.join(words[:count])))
    if (path := _path(question, folder)) is not None:
        rules.append(rule("path", path))
        if "/" in path:
            rules.append(rule("path", path.rpartition("/")[0] + "/"))
    return [each for each in (*rules, rule("tool")) if each.covers(question, folder)]


def is_edit(question: Asked) -> bool:
    """Whether a call changes one file, and asks for no other reason."""
    return not question.is_choice and are_answered(question.reasons, ACCEPT_EDITS) and _changes_file(question)


def _label(text: str) -> str:
    """Make a name visible, line breaks and tabs too, so that it stays on its line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _changes_file(question: Asked) -> bool:
    args = question.args
    known = {"path", "content", "old_string", "new_string", "replace_all"}
    is_known = {*args} <= known and isinstance(args.get("path"), str)
    return is_known and ("content" in args or {"old_string", "new_string"} <= {*args})


def _words(question: Asked) -> list[str] | None:
    """Return the words of a call that runs one plain command; None for any other call."""
    command: Any = question.args.get("command")
    if (
        not isinstance(command, str)
        or not {*question.args} <= {"command", "timeout", "background"}
        or _SHELL.search(command)
    ):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return words if words and "=" not in words[0] else None


def _path(question: Asked, folder: str) -> str | None:
    """Return the file that a call changes, relative to the folder, with links resolved; None for other calls."""
    if not _changes_file(question):
        return None
    path = os.path.relpath(os.path.realpath(os.path.join(folder, question.args["path"])), os.path.realpath(folder))
    path = path.replace(os.sep, "/")
    return None if path.startswith("../") or path in ("..", ".") else path


def rules_of(folder: str) -> Rules:
    """Return the rules of a folder, from the user's data folder."""
    from platformdirs import user_data_path

    return Rules(folder, user_data_path("deep"))


class Rules:
    """The rules of one chat, and those that are kept for its folder.

    Args:
        folder: the folder, without symlinks.
        data: the user's data folder; a folder that contains it keeps no rules, because the agent could write them.
    """

    def __init__(self, folder: str, data: Path) -> None:
        self.folder = folder
        self.file = data / "approvals" / f"{folder_key(folder)}.json"
        self.can_keep = not self.file.resolve().is_relative_to(Path(folder).resolve())
        self.accepts_edits = False
        """Whether chats of the folder begin in the mode `accept-edits`."""
        self._rules: list[Rule] = []
        self._kept = self._read() if self.can_keep else []

    def covering(self, question: Asked) -> Rule | None:
        """Return a rule that answers a question; None if it must be asked."""
        return next((rule for rule in (*self._rules, *self._kept) if rule.covers(question, self.folder)), None)

    def add(self, answer: Always) -> None:
        """Take a rule from an answer.

        Raises:
            OSError: it should be kept, and the file cannot be written.
        """
        self._rules.append(answer.rule)
        if answer.keep and self.can_keep and answer.rule not in self._kept:
            self._kept.append(answer.rule)
            self._write()

    def keep_edits(self, accepts: bool) -> None:
        """Keep the mode that chats of the folder begin in.

        Raises:
            OSError: the file cannot be written.
        """
        if self.can_keep and accepts != self.accepts_edits:
            self.accepts_edits = accepts
            self._write()

    def refresh(self) -> None:
        """Read again what is kept: another interface may have added to it, or dropped it."""
        if self.can_keep:
            self.accepts_edits = False
            self._kept = self._read()

    def forget(self) -> None:
        """Forget the rules of the chat; those that are kept stay."""
        self._rules.clear()

    @property
    def kept(self) -> Sequence[Rule]:
        """The rules that are kept."""
        return self._kept

    @property
    def of_chat(self) -> Sequence[Rule]:
        """The rules of the chat that are not kept."""
        return [rule for rule in self._rules if rule not in self._kept]

    def drop(self) -> None:
        """Delete all rules, those that are kept too."""
        self._rules.clear()
        self._kept.clear()
        self.accepts_edits = False
        self.file.unlink(missing_ok=True)

    def _read(self) -> list[Rule]:
        try:
            data: Any = json.loads(self.file.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                return []
            found = [Rule(**rule) for rule in data["rules"]]
            self.accepts_edits = data.get("accepts_edits") is True
            return [rule for rule in found if rule.kind in ANSWERS]
        except (OSError, ValueError, KeyError, TypeError):
            return []  # a rule that cannot be read answers nothing: the question is asked

    def _write(self) -> None:
        rules = [asdict(rule) for rule in self._kept]
        kept = {"schema": SCHEMA, "folder": self.folder, "rules": rules, "accepts_edits": self.accepts_edits}
        replace_private(self.file, json.dumps(kept))
