"""The pages for people who know pydantic-deep 0.3 and deepagents: every name has a home that imports, or a reason."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel

from deep_core import Kernel
from tests.docs_pages import ROOT
from tests.environments import FIXTURES

DEEP, DEEPAGENTS = (ROOT / "docs" / f"coming-from-{name}.md" for name in ("pydantic-deep", "deepagents"))
ITS_NAMES = """
AsyncSubAgent AsyncSubAgentMiddleware CompiledSubAgent DeepAgentState FilesystemMiddleware
FilesystemPermission FsToolName GeneralPurposeSubagentProfile HarnessProfile HarnessProfileConfig
MemoryMiddleware ProviderProfile RubricMiddleware SubAgent SubAgentMiddleware create_deep_agent
register_harness_profile register_provider_profile
"""
ITS_PARAMETERS = """
model tools system_prompt middleware subagents skills memory permissions backend interrupt_on response_format
state_schema context_schema checkpointer store debug name cache
"""
ITS_BACKENDS = """
BackendProtocol CompositeBackend ContextHubBackend FilesystemBackend LangSmithSandbox LocalShellBackend
StateBackend StoreBackend
"""
ITS_TOOLS = "ls read_file write_file edit_file delete glob grep execute task"


def rows(page: Any, heading: str) -> list[tuple[list[str], str]]:
    """The names in the first column of the table below a heading, and the second column, row by row."""
    section = page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.M)
    return [(re.findall(r"`(\w+)`", names), home) for names, home in found]


def names(page: Any, heading: str) -> list[str]:
    return [name for row, _ in rows(page, heading) for name in row]


@pytest.mark.parametrize(("heading", "count"), [("Names of 0.3", 204), ("Parameters of 0.3", 73)])
def test_the_page_has_every_name_and_parameter_of_0_3_once(heading: str, count: int) -> None:
    words = (FIXTURES / "pydantic_deep_0_3_50.txt").read_text().split("\n\n")[count == 73].split()
    assert len(words) == count
    assert sorted(names(DEEP, heading)) == sorted(words)


@pytest.mark.parametrize(
    ("heading", "words"),
    [("Names", ITS_NAMES), ("Parameters", ITS_PARAMETERS), ("Backends", ITS_BACKENDS), ("Tools", ITS_TOOLS)],
)
def test_the_page_has_every_name_of_deepagents_once(heading: str, words: str) -> None:
    assert sorted(names(DEEPAGENTS, heading)) == sorted(words.split())


def test_every_home_imports_and_what_has_none_has_a_reason() -> None:
    tables = [(DEEP, "Names of 0.3"), (DEEP, "Parameters of 0.3")]
    tables += [(DEEPAGENTS, heading) for heading in ("Names", "Parameters", "Backends", "Tools")]
    for page, heading in tables:
        for row, home in rows(page, heading):
            if home.startswith(("no, because ", "dropped, because ")):
                assert len(home.split()) > 4, row
                continue
            assert "`" in home or home in ("as in 0.2", "the same name", "always"), row
            for dotted in re.findall(r"`((?:deep|pydantic)_\w+(?:\.\w+)+)`", home):
                module, _, attribute = dotted.rpartition(".")
                getattr(import_module(module), attribute)


class Invoice(BaseModel):
    total: float


def forecast(city: str) -> str:
    """Tomorrow's weather in a city."""
    return f"Sunny in {city}"


def is_code(home: str) -> bool:
    """Whether a cell is a keyword with a value that can be passed."""
    return re.fullmatch(r"`\w+=.+`", home) is not None and "…" not in home


def test_the_keywords_of_both_pages_are_those_of_an_agent() -> None:
    known: dict[str, Any] = {"Invoice": Invoice, "forecast": forecast}
    made = 0
    with Kernel() as kernel:  # keywords are the names of installed plugins
        for page, heading in ((DEEP, "Parameters of 0.3"), (DEEPAGENTS, "Parameters")):
            for row, home in rows(page, heading):
                if is_code(home):
                    keywords = eval(f"dict({home.strip('`')})", dict(known))
                    kernel.create_agent(**{**keywords, "model": "test"})
                    made += 1
                    assert row
    assert made > 15
