"""A tape: the answers of the models in one trial. It is recorded where they arrive, and played to who asks the same.

A request is known by digests of its parts: each section and tool with its plugin, each message, the settings. What
differs between two machines or days (folders, dates, seconds, ids of calls) is left out of them, and keys never get in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, TypeAlias, cast

from .errors import TrialsError

__all__ = ["Asked", "Cleaner", "Item", "Player", "Recorder", "TapeError", "compact", "secrets_of"]

Item: TypeAlias = tuple[str, str, str]
"""A part of a request: what it is, the plugin that wrote it ("" for none), its digest."""
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.I)
LOOKS_SECRET = re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abp]|AKIA|AIza|hf)[-_A-Za-z0-9]{16,}")
SHORTEST = 8
"""A value of fewer characters is a word, not a key."""
FOLDER = "{{trial-folder}}"
_VARIES = (
    (re.compile(r"pyd_ai_[0-9a-f]+"), "{id}"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds)\b"), "{seconds}"),
)
MOST = 5
"""Changes that are named."""


class TapeError(TrialsError):
    """A request has no recorded answer."""


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of variables that are named like keys, with what stands for each."""
    found = {v: f"{{{name}}}" for name, v in environment.items() if SECRET.search(name) and len(v) >= SHORTEST}
    # The longest first: one may hold another.
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


@dataclass(frozen=True)
class Cleaner:
    """Takes out of texts what is secret, and what differs from one trial to the next.

    Attributes:
        folder: of the trial.
        secrets: what `secrets_of` returns.
        today: dates that stand for today.
    """

    folder: str
    secrets: Mapping[str, str] = field(default_factory=lambda: secrets_of(os.environ))
    today: Sequence[str] = field(
        default_factory=lambda: (datetime.now(UTC).date().isoformat(), date.today().isoformat())
    )

    def keep(self, value: Any) -> Any:
        """Return JSON data as it may be written to a file."""
        return _each(value, self._kept)

    def back(self, value: Any) -> Any:
        """Return written data as the trial under way would have it."""
        return _each(value, lambda text: text.replace(FOLDER, self.folder))

    def digest(self, value: Any) -> str:
        """Return the digest of JSON data, without what varies."""
        text = json.dumps(_each(value, self._same), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _kept(self, text: str) -> str:
        for secret, name in self.secrets.items():
            text = text.replace(secret, name)
        return LOOKS_SECRET.sub("{key}", text).replace(self.folder, FOLDER)

    def _same(self, text: str) -> str:
        text = self._kept(text)
        for day in self.today:
            text = text.replace(day, "{today}")
        for pattern, word in _VARIES:
            text = pattern.sub(word, text)
        return text


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        return {change(str(key)): _each(inner, change) for key, inner in pairs.items()}
    if isinstance(value, list | tuple):
        return [_each(inner, change) for inner in cast("Sequence[Any]", value)]
    return value


@dataclass(frozen=True)
class Asked:
    """A request.

    Attributes:
        model: the id of the model that was asked.
        items: its parts, as the agent sent them.
        arrived: its parts as they arrived at the model, where what wraps models may have changed them.
    """

    model: str
    items: Sequence[Item]
    arrived: Sequence[Item]


class Recorder:
    """Tells each answer as it arrives.

    Args:
        cleaner: takes out what is secret.
        tell: takes each answer, as JSON data.
    """

    def __init__(self, cleaner: Cleaner, tell: Callable[[Mapping[str, Any]], object]) -> None:
        self.cleaner = cleaner
        self._tell = tell

    def add(self, asked: Asked, facts: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Note an answer: a `response`, or the `error` of a provider."""
        said = {"model": asked.model, "items": asked.items, "arrived": asked.arrived, "facts": facts, **answer}
        self._tell({"taped": self.cleaner.keep(said)})


def compact(answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the tape of these answers. Parts of requests and facts of models, which repeat, are written once."""
    items: dict[str, int] = {}
    facts: dict[str, int] = {}
    played: list[dict[str, Any]] = []
    for answer in answers:
        parts = {
            key: [items.setdefault(json.dumps(item), len(items)) for item in answer[key]]
            for key in ("items", "arrived")
        }
        number = facts.setdefault(json.dumps(answer["facts"]), len(facts))
        played.append({**answer, **parts, "facts": number})
    return {"items": [*map(json.loads, items)], "facts": [*map(json.loads, facts)], "answers": played}


class Player:
    """Answers from a tape.

    Args:
        cleaner: of the trial under way.
        tape: what `compact` returned.

    Attributes:
        problem: the request that had no answer, in words; "" as long as all had one.
    """

    def __init__(self, cleaner: Cleaner, tape: Mapping[str, Any]) -> None:
        self.cleaner = cleaner
        self.problem = ""
        self._items: list[Item] = [(what, plugin, digest) for what, plugin, digest in tape["items"]]
        self._facts: list[dict[str, Any]] = tape["facts"]
        self._left: list[dict[str, Any]] = [*tape["answers"]]
        self._last: dict[str, dict[str, Any]] = {}

    def facts(self, model: str) -> Mapping[str, Any]:
        """Return what is known of a model at its next answer.

        Raises:
            TapeError: no answer of this model was recorded.
        """
        ahead = next((each for each in self._left if each["model"] == model), self._last.get(model))
        if ahead is None:
            raise self._fail(f"no answer of {model} was recorded")
        number: int = ahead["facts"]
        return self._facts[number]

    def take(self, asked: Asked) -> Mapping[str, Any]:
        """Return the recorded answer: a `response` or an `error`.

        Raises:
            TapeError: nobody asked this when it was recorded; the message names the plugins whose part changed.
        """
        mine = [each for each in self._left if each["model"] == asked.model]
        found = next((each for each in mine if self._parts(each, "arrived") == [*asked.arrived]), None)
        if found is None:
            raise self._fail(self._changed(asked, mine))
        self._left.remove(found)
        self._last[asked.model] = found
        return self.cleaner.back({key: found[key] for key in ("response", "error") if key in found})

    def _parts(self, answer: Mapping[str, Any], key: str) -> list[Item]:
        numbers: list[int] = answer[key]
        return [self._items[number] for number in numbers]

    def _fail(self, why: str) -> TapeError:
        self.problem = self.problem or why
        return TapeError(why)

    def _changed(self, asked: Asked, left: Sequence[Mapping[str, Any]]) -> str:
        if not left:
            return f"{asked.model} is asked once more than when it was recorded"
        # The one that is most alike is the one that was meant.
        before = min(left, key=lambda each: len({*self._parts(each, "items")} ^ {*asked.items}))
        changes = _changes(self._parts(before, "items"), asked.items)
        changes = (
            changes or _changes(self._parts(before, "arrived"), asked.arrived) or ["the order of its parts changed"]
        )
        more = f", and {len(changes) - MOST} more" if len(changes) > MOST else ""
        return f"not the recorded request: {', '.join(changes[:MOST])}{more}"


def _changes(before: Sequence[Item], after: Sequence[Item]) -> list[str]:
    """Return what differs. Sections and tools go first: a message that differs follows from them."""
    old, new = ({(what, plugin): digest for what, plugin, digest in items} for items in (before, after))
    said: list[str] = []
    of_plugins: list[str] = []
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) == new.get(key):
            continue
        word = "is gone" if key not in new else "is new" if key not in old else "changed"
        what, plugin = key
        (of_plugins if plugin else said).append(f"{what}{f' of plugin {plugin}' if plugin else ''} {word}")
    return of_plugins or said
