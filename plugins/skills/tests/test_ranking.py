"""`list_skills` finds the skill that a question is about, and pages through the others."""

from __future__ import annotations

import re

import pytest
from deep_skills.catalog import list_text
from deep_skills.library import SkillChoice, View
from deep_skills.ranking import rank_skills

from deep_core import SkillMeta

from .asked_skills import QUESTIONS, SKILLS


def skill(name: str, description: str, tags: str = "") -> SkillMeta:
    return SkillMeta(name, description, "user", f"/skills/{name}", metadata={"tags": tags} if tags else {})


OFFICE = [
    skill("xlsx", "Create and read spreadsheets, with formulas and formatting."),
    skill("excel-style", "Excel spreadsheet colors of our brand."),
    skill("pptx", "Slides: create and change presentations, with layouts and notes."),
    skill("make-a-plan", "Make a plan for a project, a week or a year."),
    skill("powerdns", "A name server: make zones, a record at a time."),
    skill("kubernetes-basics", "Clusters.", "devops, pods"),
    skill("日本語", "日本語の請求書を作成する。"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("excel spreadsheet", ["excel-style", "xlsx"]),  # a full match does not hide a partial one
        ("make a powerpoint presentation", ["pptx"]),  # filler words do not count like rare ones
        ("How do I create presentations?", ["pptx", "xlsx"]),
        ("kube", ["kubernetes-basics"]),
        ("devops", ["kubernetes-basics"]),
        ("請求書", ["日本語"]),
        ("PLANNING", ["make-a-plan"]),
        ("what is this", []),
    ],
)
def test_a_query_finds_the_skill_it_is_about(query: str, first: list[str]) -> None:
    assert [meta.name for meta in rank_skills(OFFICE, query)][: len(first) or None] == first


@pytest.mark.slow
def test_questions_find_their_skill_among_900() -> None:
    """Of the 900, 30 have a verb that the skill does not have: see `asked_skills`. Any word of all found 38 percent."""
    assert len(SKILLS) == len(QUESTIONS) == 900
    found = sum(
        name in [meta.name for meta in rank_skills(SKILLS, question)[:5]] for name, question in QUESTIONS.items()
    )
    assert found / len(QUESTIONS) >= 0.95


@pytest.mark.parametrize("query", ["", "PDF documents"])
def test_pages_lead_on_and_show_every_match_once(query: str) -> None:
    view = View({meta.name: SkillChoice(meta, loader=None) for meta in SKILLS})  # type: ignore[arg-type]
    shown, offset = list[str](), 0
    while True:
        text = list_text(view, query, 3_000, offset)
        assert len(text) <= 3_000
        shown += re.findall(r"^- (\S+) \(user\): ", text, re.M)
        following = re.search(r"\n(\d+) more: offset=(\d+)$", text)
        if following is None:
            break
        assert (int(following[1]), int(following[2])) == (int(text.split()[0]) - len(shown), len(shown))
        offset = int(following[2])
    assert len(shown) == len({*shown}) == int(text.split()[0])
    assert "only" in list_text(view, query, 3_000, 1_000)
