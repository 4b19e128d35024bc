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
CROWD, AGAIN = 0.5, 3.0
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
    wanted = _Wanted(focus, paths, definers)
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
    users = {
        name: sorted(
            (path for number, path in enumerate(paths) if number not in definers[name] and _has(files[path], name)),
            key=lambda path: -weights[wanted.numbers[path]],
        )
        for name in dict.fromkeys(focus)
    }
    return Ranked(entries, {name: found for name, found in users.items() if found})


def _has(parsed: Parsed, name: str) -> bool:
    return any(used == name for used, _ in parsed.used)


class _Wanted:
    """How well names and paths match the focus: 0 for not at all. A rare match counts more."""

    def __init__(self, focus: Sequence[str], paths: Sequence[str], names: Iterable[str]) -> None:
        self.numbers = {path: number for number, path in enumerate(paths)}
        self.names: dict[str, float] = defaultdict(float)
        self.paths: dict[str, float] = defaultdict(float)
        for term in dict.fromkeys(focus):
            for found, among, match in ((self.names, names, _name_match), (self.paths, paths, _path_match)):
                hits = {each: score for each in among if (score := match(term, each))}
                total = sum(hits.values())
                for each, score in hits.items():
                    found[each] += score * math.log(1 + len(paths) / total)

    def __bool__(self) -> bool:
        return bool(self.names or self.paths)


@lru_cache(50_000)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text))


def _name_match(term: str, name: str) -> float:
    last = term.rpartition(".")[2]
    if name in (term, last):
        return 4.0
    return 2.0 if name.lower() == last.lower() else _share(term, name)


def _path_match(term: str, path: str) -> float:
    clean = term.strip("/")
    if clean and (path == clean or path.startswith(f"{clean}/") or path.endswith(f"/{clean}")):
        return 4.0
    return 0.5 * _share(term, path)


def _share(term: str, text: str) -> float:
    """Return which share of the words of `term` is in `text`, squared: one of three is little."""
    words, there = _words(term), _words(text)
    if not words:
        return 0.0
    return (sum(any(_same(word, other) for other in there) for word in words) / len(words)) ** 2


def _same(word: str, other: str) -> bool:
    """Whether words are equal but for an ending: `retry` and `retries`, `parse` and `parser`."""
    if word == other:
        return True
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
    starts = [wanted.paths.get(path, 0.0) for path in files]
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
    most_match = max([*wanted.names.values(), *wanted.paths.values()], default=0.0) or 1.0
    found: list[tuple[float, str, int, Entry]] = []
    for number, (path, parsed) in enumerate(files.items()):
        about = wanted.paths.get(path, 0.0) / most_match
        own: list[tuple[float, int, Definition]] = []
        for position, each in enumerate(parsed.defined):
            score = (
                flows.get((number, each.name), 0.0) / most_flow + weights[number] / (1 + position + each.depth) / 100
            )
            own.append((score + 2 * wanted.names.get(each.name, 0.0) / most_match, -position, each))
        own.sort(key=lambda each: each[:2], reverse=True)
        again: Counter[str] = Counter()
        for behind, (score, _, each) in enumerate(own):
            back = 1 + CROWD * behind + AGAIN * again[each.name]
            again[each.name] += 1
            found.append((-(score + about) / back, path, each.line, Entry(path, each)))
        if not own:
            found.append((-2 * about, path, 0, Entry(path, None)))
    found.sort(key=lambda each: each[:3])
    return [entry for *_, entry in found]
