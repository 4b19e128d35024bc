"""Skills that are left out, old files and problems of many: each reported once, in few words."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deep_skills import check_skills, discover_skills
from deep_skills.commands import skills
from pydantic_ai import Agent

from deep_core import create_default_deps
from tests.stubs import Call, Script, function_model

Write = Callable[..., Path]
Make = Callable[..., Agent[Any, Any]]

OLD = "version: 1.2\nauthor: Ann\ntags:\n  - invoices\n  - ledger\n"


@pytest.mark.anyio
async def test_fields_of_old_files_are_read_found_and_shown(
    project: Path, skill: Write, make_agent: Make, results: Callable[[list[Any]], list[str]]
) -> None:
    skill(project / ".deep/skills", "books", extra=OLD)
    skill(project / ".deep/skills", "other")
    calls = [
        Call("list_skills"),
        Call("list_skills", {"query": "the ledger"}),
        Call("list_skills", {"tags": ["invoices"]}),
        Call("load_skill", {"skill_name": "books"}),
    ]
    result = await make_agent(function_model(Script(calls, "done"))).run("go", deps=create_default_deps())
    everything, queried, tagged, loaded = results(result.all_messages())
    assert "Problems" not in everything
    for text in (queried, tagged):
        assert text.splitlines() == [
            "1 skill, the best first:",
            "- books (project; invoices, ledger): Use it for books.",
        ]
    assert "Version: 1.2\nAuthor: Ann\nTags: invoices, ledger\n" in loaded
    assert check_skills([project / ".deep/skills"]) == []
    first = discover_skills([project / ".deep/skills"])[0]
    assert (first.get("tags"), first.get("version")) == (["invoices", "ledger"], "1.2")
    assert len(check_skills([project / ".deep/skills"], strict=True)) == 3, "the standard does not have them"


def test_skills_that_are_not_searched_are_reported_once(tmp_path: Path, skill: Write) -> None:
    skill(tmp_path, "top")
    for number in range(3):
        skill(tmp_path / "top/parts", f"part-{number}")
        skill(tmp_path / "1/2/3/4", f"deep-{number}")
        skill(tmp_path / ".hidden", f"secret-{number}")
    skill(tmp_path / "node_modules/x", "ignored")
    assert [each["name"] for each in discover_skills([tmp_path])] == ["top"]
    assert [str(problem).split("; move")[0] for problem in check_skills([tmp_path])] == [
        f"{tmp_path}/top/SKILL.md: 3 skills below this skill, not searched: parts/part-0/SKILL.md",
        f"{tmp_path}: 3 skills hidden, not searched: .hidden/secret-0/SKILL.md",
        f"{tmp_path}: 3 skills deeper than 4 folders, not searched: 1/2/3/4/deep-0/SKILL.md",
    ]


@pytest.mark.anyio
async def test_many_problems_are_one_line_of_the_log(
    project: Path, skill: Write, make_agent: Make, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(40):
        skill(project / ".deep/skills", f"s{number:02}", extra=f"model: x{number}\n")
    (project / ".deep/skills/s07/SKILL.md").write_text("---\nname: s07\n---\n")
    agent = make_agent(function_model(Script("done", "done")))
    with caplog.at_level(logging.WARNING):
        await agent.run("go", deps=create_default_deps())
        await agent.run("again", deps=create_default_deps())
    (line,) = [record.message for record in caplog.records if "skills" in record.message]
    assert line.startswith("40 problems of skills, 1 of them skipped, such as ")
    assert "s07/SKILL.md:1: there is no description" in line or "s07/SKILL.md:2: there is no description" in line
    assert line.endswith("All: deep skills check")


def test_deep_skills_check_reports_them_all(
    project: Path, home: Path, skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "skills,backends")
    skill(project / ".deep/skills", "fine")
    skill(home / ".agents/skills", "odd", extra="model: x\n")
    done = CliRunner().invoke(skills, ["check"])
    assert (done.exit_code, done.stderr) == (0, "2 skills, problems: 1, left out: 0\n"), done.output
    assert done.stdout == (
        f"{home}/.agents/skills/odd/SKILL.md:4: unknown field 'model'; put custom fields below metadata\n"
    )
    (project / ".deep/skills/fine/SKILL.md").write_text("no frontmatter")
    done = CliRunner().invoke(skills, ["check", ".deep/skills", "--output", "json"])
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["schema"], told["skills"]) == (1, None)
    assert [(each["line"], each["skipped"]) for each in told["problems"]] == [(1, True)]
    assert CliRunner().invoke(skills, ["check", "--strict"]).exit_code == 1
