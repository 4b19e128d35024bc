"""Rank skills for a query by BM25 (Robertson and Zaragoza, 2009), over their names, tags and descriptions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from deep_core import SkillMeta

__all__ = ["rank_skills"]

K1, B = 1.2, 0.75
"""The usual parameters: how soon repetitions stop to count, and how much a long text is discounted."""
NAME_WEIGHT, TAG_WEIGHT = 3, 2
"""How many times a word of the name or of a tag counts as one of the description."""
PART_WEIGHT = 0.5
"""What a word counts that is only a part of a word there: `xls` of `xlsx`."""

# Words of questions that say nothing of their subject.
_STOP = frozenset(
    re.findall(
        r"\w+",
        "a about all also am an and any are as ask asks at be been being but by can could did do does doing don for "
        "from get gets getting give go got had has have having he help helps her here his how i if in into is it "
        "its just let like make makes making me my need needs new no not now of off on one or our out over own "
        "please put she should so some something sure such take tell than that the their them then there these they "
        "thing things this those to too up us use used user users uses using very want wants was way we were what "
        "when where which while who why will with would you your",
    )
)
_WORD = re.compile(r"[^\W_]+")
# Scripts that do not put spaces between words: Thai, Japanese, Chinese.
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]{2,}")


def _stem(word: str) -> str:
    """Cut the English endings that most often differ between a question and a description."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, least in (("ing", 6), ("ed", 5)):
        if word.endswith(ending) and len(word) >= least:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _terms(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.casefold()):
        if _UNSPACED.fullmatch(word):
            yield from (word[at : at + 2] for at in range(len(word) - 1))
        else:
            yield _stem(word)


def _query_terms(query: str) -> list[str]:
    words = " ".join(word for word in _WORD.findall(query.casefold()) if word not in _STOP)
    return list(dict.fromkeys(_terms(words or query)))


@lru_cache(maxsize=4_096)
def _counts(name: str, tags: str, description: str) -> tuple[Mapping[str, int], int]:
    """Return how often each term is in a skill, by weight, and their sum."""
    counts: Counter[str] = Counter(_terms(description))
    for text, weight in ((name, NAME_WEIGHT), (tags, TAG_WEIGHT)):
        for term in _terms(text):
            counts[term] += weight
    return counts, counts.total()


def rank_skills(skills: Sequence[SkillMeta], query: str) -> list[SkillMeta]:
    """Return the skills that have a word of the query, the best first."""
    documents = [_counts(meta.name, meta.metadata.get("tags", ""), meta.description) for meta in skills]
    average = sum(size for _, size in documents) / len(documents) if documents else 0
    scores = [0.0] * len(documents)
    for term in _query_terms(query):
        found = [counts.get(term, 0.0) for counts, _ in documents]
        if not any(found) and len(term) > 2:
            found = [PART_WEIGHT * sum(n for each, n in counts.items() if term in each) for counts, _ in documents]
        having = sum(map(bool, found))
        rarity = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
        for index, frequency in enumerate(found):
            if frequency:
                length = 1 - B + B * documents[index][1] / average
                scores[index] += rarity * frequency * (K1 + 1) / (frequency + K1 * length)
    order = sorted(range(len(skills)), key=lambda index: (-scores[index], skills[index].name))
    return [skills[index] for index in order if scores[index]]
