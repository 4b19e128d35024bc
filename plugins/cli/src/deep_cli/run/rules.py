"""What the user approves always: rules that answer a question which the policy raised."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deep_core.plugin_api import ACCEPT_EDITS, EVERY_CALL, ReasonKind, are_answered

from ..private_files import replace
from ..terminal.screen import label
from .names import project

if TYPE_CHECKING:
    from .approval import Question

__all__ = ["Always", "Rule", "Rules", "is_edit", "offers", "rules_of"]

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
        name = label(self.tool)
        if self.kind == "command":
            return f"{name}: a single command that begins with `{label(self.value)}`, with any words after it"
        if self.kind == "path":
            below = "any file below" if self.value.endswith("/") else "the file"
            return f"{name}: {below} {label(self.value)}"
        return f"{name}: every call"

    def covers(self, question: Question, folder: str) -> bool:
        """Whether it answers a question of a chat in this folder."""
        same = bool(self.identity) and self.identity == question.identity
        if not same or question.choice is not None or not are_answered(question.reasons, ANSWERS[self.kind]):
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


def offers(question: Question, folder: str) -> list[Rule]:
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


def is_edit(question: Question) -> bool:
    """Whether a call changes one file, and asks for no other reason."""
    return question.choice is None and are_answered(question.reasons, ACCEPT_EDITS) and _changes_file(question)


def _changes_file(question: Question) -> bool:
    args = question.args
    known = {"path", "content", "old_string", "new_string", "replace_all"}
    is_known = {*args} <= known and isinstance(args.get("path"), str)
    return is_known and ("content" in args or {"old_string", "new_string"} <= {*args})


def _words(question: Question) -> list[str] | None:
    """Return the words of a call that runs one plain command; None for any other call."""
    command: Any = question.args.get("command")
    if not isinstance(command, str) or not {*question.args} <= {"command", "timeout"} or _SHELL.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return words if words and "=" not in words[0] else None


def _path(question: Question, folder: str) -> str | None:
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
        self.file = data / "approvals" / f"{project(folder)}.json"
        self.can_keep = not self.file.resolve().is_relative_to(Path(folder).resolve())
        self._rules: list[Rule] = []
        self._kept = self._read() if self.can_keep else []

    def covering(self, question: Question) -> Rule | None:
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
        self.file.unlink(missing_ok=True)

    def _read(self) -> list[Rule]:
        try:
            data: Any = json.loads(self.file.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                return []
            found = [Rule(**rule) for rule in data["rules"]]
            return [rule for rule in found if rule.kind in ANSWERS]
        except (OSError, ValueError, KeyError, TypeError):
            return []  # a rule that cannot be read answers nothing: the question is asked

    def _write(self) -> None:
        rules = [asdict(rule) for rule in self._kept]
        replace(self.file, json.dumps({"schema": SCHEMA, "folder": self.folder, "rules": rules}))
