"""The suite for a plugin that implements another plugin's hook: beside its owner, and without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.authors_pytest import IN_A_FORK
from tests.environments import REPOSITORY, Distribution, Environment, Finished

TYPES = '''"""Subagent types of Acme."""
from deep_core import hookimpl


@hookimpl(of="OWNER")
def deep_subagents(context):
    from deep_subagents import SubAgentConfig

    return [SubAgentConfig(name="auditor", description="Checks numbers.", instructions="Check them.")]
'''
TOO = """

@hookimpl
def deep_prompt_sections(context):
    from deep_core import PromptSection

    return [PromptSection.static("numbers", "Numbers are checked.")]
"""
AUTHOR = """
from pytest_deep import PluginConformance


class TestConformance(PluginConformance):
    plugin = "acme_types"
    strict_import = True
"""
NEED = (
    "hook deep_subagents: belongs to the plugin 'subagents', which is not installed here, so it cannot be checked.",
    "change: install the distribution of 'subagents' with your development dependencies, or name its module in",
)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    found = Environment.create(tmp_path)
    found.install(Distribution.of_project(REPOSITORY / "plugins" / "pytest-deep"))
    (found.work / "test_acme.py").write_text(AUTHOR, encoding="utf-8")
    return found


def check(environment: Environment, text: str, *arguments: str) -> Finished:
    """Install the plugin with this code, and run its author's tests."""
    environment.install(Distribution("acme-types", {"acme_types": "acme_types"}, {"acme_types.py": text}))
    readme = "Acme's types of subagents: an auditor that checks numbers, and whatever else Acme needs."
    (metadata,) = environment.site.glob("acme_types-*/METADATA")
    metadata.write_text(f"{metadata.read_text('utf-8')}Summary: Types.\n\n{readme}\n", encoding="utf-8")
    command = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments, *IN_A_FORK]
    return environment.fork(*command)


@pytest.mark.slow
def test_beside_its_installed_owner_every_check_runs(environment: Environment) -> None:
    environment.install(Distribution.of_project(REPOSITORY / "plugins" / "subagents"))
    done = check(environment, TYPES.replace("OWNER", "subagents"), "-W", "error").ok()
    assert "does not load" not in done.out
    # The owner runs too, and rejects a value that is not a valid subagent type.
    wrong = TYPES.replace("OWNER", "subagents").replace('name="auditor"', 'name="no name"')
    done = check(environment, wrong)
    assert done.code == 1
    assert "no name" in done.out


@pytest.mark.slow
def test_without_its_owner_one_check_says_what_it_needs_and_the_others_are_skipped(environment: Environment) -> None:
    done = check(environment, TYPES.replace("OWNER", "subagents"))
    assert done.code == 1
    assert [line for line in NEED if line not in done.out] == []
    assert "1 failed" in done.out
    assert "implements no hook" not in done.out
    assert "it implements only hooks of subagents, which is not installed (see test_hooks_are_valid)" in done.out


@pytest.mark.slow
def test_a_misspelt_owner_is_reported_with_a_suggestion(environment: Environment) -> None:
    environment.install(Distribution.of_project(REPOSITORY / "plugins" / "subagents"))
    done = check(environment, TYPES.replace("OWNER", "subagnets"))
    assert done.code == 1
    assert "belongs to the plugin 'subagnets'" in done.out
    assert "Did you mean 'subagents'?" in done.out


@pytest.mark.exhaustive
def test_a_plugin_that_does_more_is_checked_and_warned_of_what_was_not(environment: Environment) -> None:
    done = check(environment, TYPES.replace("OWNER", "subagents") + TOO).ok()
    assert done.out.count("PluginWarning: plugin acme_types") == 1
    assert [line for line in NEED if line not in done.out] == []
    assert check(environment, TYPES.replace("OWNER", "subagents") + TOO, "-W", "error::deep_core.PluginWarning").code
