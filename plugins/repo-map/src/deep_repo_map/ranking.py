"""Which files and definitions matter: by who uses them, and by what the caller asks for.

A file votes for the files whose names it uses, and a vote counts as much as its voter: the stationary distribution of a
random walk (PageRank; Page and others, 1998). The walk begins, and begins again, at the files that match the focus.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from .parsing import Definition, Parsed

__all__ = ["Entry", "Ranked", "rank"]

STAY = 0.85
"""Share of the steps that follow a use; the usual one."""
STEPS = 12
MOST_DEFINERS = 12
"""A name with more definitions says nothing of where it comes from: `main`, `__init__`."""
COMMON, FAR = 0.2, 0.1
"""Weight of the use of a name of one plain word, as variables are named, too; and of a use in a file that names neither
the file with the definition nor its folder, where a plain word counts nothing."""
NAMED, SAID = 4.0, 0.4
"""How much the exact name counts against its words; and a word that a file says against one in what it defines."""
MOST_NAMES = 3
"""A longer focus is the words of a task, not names of which to list the users."""
CROWD, AGAIN = 3.0, 3.0
"""How much each further definition of one file stands back, and how much each further one of the same name."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the map: a definition, or a file for its name alone.

    Attributes:
        path: of the file.
        definition: None for the file alone.
    """

    path: str
    definition: Definition | None


@dataclass(frozen=True)
class Ranked:
    """What matters.

    Attributes:
        entries: the most important first.
        users: a name of the focus -> the files that use it and do not define it, the most important first.
    """

    entries: Sequence[Entry]
    users: Mapping[str, Sequence[str]]


class _Use(NamedTuple):
    """File `user` uses a name that file `definer` defines."""

    user: int
    definer: int
    name: str
    weight: float


def rank(files: Mapping[str, Parsed], focus: Sequence[str] = ()) -> Ranked:
    """Order the files and their definitions."""
    paths = [*files]
    definers: dict[str, set[int]] = defaultdict(set)
    for number, parsed in enumerate(files.values()):
        for each in parsed.defined:
            definers[each.name].add(number)
    wanted = _Wanted(focus, files, definers)
    uses = [*_uses(files, definers, wanted)]
    starts = _starts(files, definers, wanted)
    out = [0.0] * len(paths)
    for use in uses:
        out[use.user] += use.weight
    weights = _walk(uses, out, starts)
    flows: dict[tuple[int, str], float] = defaultdict(float)
    for use in uses:
        flows[use.definer, use.name] += weights[use.user] * use.weight / out[use.user]
    entries = _entries(files, weights, flows, wanted)
    users = {name: _users(name, files, definers, weights) for name in focus} if len(focus) <= MOST_NAMES else {}
    return Ranked(entries, {name: found for name, found in users.items() if found})


def _users(
    name: str, files: Mapping[str, Parsed], definers: Mapping[str, set[int]], weights: Sequence[float]
) -> Sequence[str]:
    """Return the files that use a name and do not define it, the most important first."""
    found = [
        (-weights[number], path)
        for number, (path, parsed) in enumerate(files.items())
        if number not in definers.get(name, ()) and any(used == name for used, _ in parsed.used)
    ]
    return [path for _, path in sorted(found)]


class _Wanted:
    """How well names and files match the focus: 0 for not at all. A rare match counts more."""

    def __init__(self, focus: Sequence[str], files: Mapping[str, Parsed], definers: Mapping[str, set[int]]) -> None:
        self.names: dict[str, float] = defaultdict(float)
        self.files: dict[str, float] = defaultdict(float)
        if not focus:
            return
        terms = [*dict.fromkeys(focus)]
        self._match_names(terms, _Vocabulary(definers), len(files))
        for term in terms:
            if clean := term.strip("/"):
                for path in files:
                    if path == clean or path.startswith(f"{clean}/") or path.endswith(f"/{clean}"):
                        self.files[path] += NAMED * math.log(1 + len(files))
        self._match_words({word for term in terms for word in _words(term)}, files)

    def _match_names(self, terms: Sequence[str], known: _Vocabulary, files: int) -> None:
        for term in terms:
            last = term.rpartition(".")[2]
            hits = known.matches(term)
            for name in known.spelled(last):
                hits[name] = NAMED if name == last else NAMED / 2
            total = sum(hits.values())
            for name, score in hits.items():
                self.names[name] += score * math.log(1 + files / total)

    def _match_words(self, words: Iterable[str], files: Mapping[str, Parsed]) -> None:
        titles = {path: {*_words(path)} for path in files}
        for path, parsed in files.items():
            for each in parsed.defined:
                titles[path].update(_words(each.name))
        known = set[str]().union(*titles.values(), *(parsed.words for parsed in files.values()))
        for word in sorted(words):
            alike = {other for other in known if _same(word, other)}
            scores = {
                path: 1.0 if not alike.isdisjoint(titles[path]) else SAID
                for path, parsed in files.items()
                if not (alike.isdisjoint(titles[path]) and alike.isdisjoint(parsed.words))
            }
            rare = math.log((1 + len(files)) / (1 + len(scores))) if scores else 0.0
            for path, score in scores.items():
                self.files[path] += score * rare


class _Vocabulary:
    """Texts by their words."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._by_word: dict[str, list[str]] = defaultdict(list)
        self._by_lower: dict[str, list[str]] = defaultdict(list)
        for text in texts:
            self._by_lower[text.lower()].append(text)
            for word in {*_words(text)}:
                self._by_word[word].append(text)

    def spelled(self, text: str) -> Sequence[str]:
        """Return the texts that are equal but for case."""
        return self._by_lower.get(text.lower(), ())

    def matches(self, term: str) -> dict[str, float]:
        """Return the texts with words of the term; of each the share of them, squared: one of three is little."""
        words = _words(term)
        counts: Counter[str] = Counter()
        for word in words:
            counts.update({text for other in self._by_word if _same(word, other) for text in self._by_word[other]})
        return {text: (count / len(words)) ** 2 for text, count in counts.items()}


@lru_cache(100_000)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text))


def _same(word: str, other: str) -> bool:
    """Whether words are equal but for an ending: `retry` and `retries`, `parse` and `parser`."""
    if word[:1] != other[:1] or word == other:
        return word == other
    least = max(4, max(len(word), len(other)) - 3)
    return word[:least] == other[:least]


def _uses(files: Mapping[str, Parsed], definers: Mapping[str, set[int]], wanted: _Wanted) -> Iterable[_Use]:
    homes = [_home(path) for path in files]
    for number, parsed in enumerate(files.values()):
        there = {name for name, _ in parsed.used}
        for name, times in parsed.used:
            found = definers.get(name)
            if not found or number in found or len(found) > MOST_DEFINERS:
                continue
            if name.startswith("_") and name not in wanted.names:  # others have no business with it
                continue
            plain = name.isalpha() and name.islower()
            weight = math.log2(1 + times) / len(found) * (1 + wanted.names.get(name, 0.0))
            weight *= COMMON if plain else 1.0
            for definer in sorted(found):
                near = any(word in there and word != name for word in homes[definer])
                if near or not plain:
                    yield _Use(number, definer, name, weight if near else weight * FAR)


def _home(path: str) -> tuple[str, ...]:
    """Return the words by which other files import this one: its name without the ending, and its folder's."""
    parts = path.rsplit("/", 2)[-2:]
    return (*parts[:-1], parts[-1].partition(".")[0])


def _starts(files: Mapping[str, Parsed], definers: Mapping[str, set[int]], wanted: _Wanted) -> list[float]:
    """Return the share of the walks that begins at each file."""
    starts = [wanted.files.get(path, 0.0) for path in files]
    for name, score in wanted.names.items():
        for number in definers[name]:
            starts[number] += score / len(definers[name])
    total = sum(starts)
    return [each / total for each in starts] if total else [1 / len(starts)] * len(starts)


def _walk(uses: Sequence[_Use], out: Sequence[float], starts: Sequence[float]) -> Sequence[float]:
    steps: dict[tuple[int, int], float] = defaultdict(float)
    for use in uses:
        steps[use.user, use.definer] += use.weight / out[use.user]
    weights = [*starts]
    for _ in range(STEPS):
        # Who uses nothing votes for where walks begin.
        rest = 1 - STAY + STAY * sum(weight for weight, leaves in zip(weights, out, strict=True) if not leaves)
        after = [rest * each for each in starts]
        for (user, definer), share in steps.items():
            after[definer] += STAY * weights[user] * share
        weights = after
    return weights


def _entries(
    files: Mapping[str, Parsed],
    weights: Sequence[float],
    flows: Mapping[tuple[int, str], float],
    wanted: _Wanted,
) -> Sequence[Entry]:
    most_flow = max(flows.values(), default=0.0) or 1.0
    most_match = max([*wanted.names.values(), *wanted.files.values()], default=0.0) or 1.0
    found: list[tuple[float, str, int, Entry]] = []
    for number, (path, parsed) in enumerate(files.items()):
        about = wanted.files.get(path, 0.0) / most_match
        own: list[tuple[float, int, Definition]] = []
        for position, each in enumerate(parsed.defined):
            place = weights[number] / (1 + position + each.depth) / (1_000 if each.name.startswith("_") else 100)
            score = flows.get((number, each.name), 0.0) / most_flow + place
            own.append((score + 2 * wanted.names.get(each.name, 0.0) / most_match, -position, each))
        own.sort(key=lambda each: each[:2], reverse=True)
        again: Counter[str] = Counter()
        for behind, (score, _, each) in enumerate(own):
            back = 1 + CROWD * behind + AGAIN * again[each.name]
            again[each.name] += 1
            found.append((-(score + 2 * about) / back, path, each.line, Entry(path, each)))
        if not own:
            found.append((-2 * about, path, 0, Entry(path, None)))
    found.sort(key=lambda each: each[:3])
    return [entry for *_, entry in found]
