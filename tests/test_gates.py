"""Regression gates: what is the same on a busy machine, held to benchmarks/gates.json. No seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import variables
from tests import another_process
from tests.environments import REPOSITORY

GATES: dict[str, dict[str, Any]] = json.loads((REPOSITORY / "benchmarks/gates.json").read_text("utf-8"))["gates"]
COUNTS = "import runpy; runpy.run_module('benchmarks.counts', run_name='__main__')"
OURS = "ours:ALL"
"""With every plugin of this repository."""
AT_THE_WIRE = ("requests", "static_chars", "summaries")
"""Counts of what is sent: for those it is the same who imported the framework."""
FEATURES = (
    "backends",
    "sessions",
    "filesystem",
    "todo",
    "subagents",
    "skills",
    "summarization",
    "uploads",
    "web_tools",
    "guards",
    "capabilities",
    "demo",
    "cli",
)


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """One count of `benchmarks.counts`, each in a process of its own, made once."""
    home = tmp_path_factory.mktemp("home")
    # The first start reads the metadata of plugins with two libraries: the gates hold for every later one.
    subprocess.run([sys.executable, "-m", "deep_cli", "plugins", "list"], cwd=home, env=variables(home), check=True)

    @cache
    def count(*arguments: str) -> Any:
        command = [sys.executable, "-m", "benchmarks.counts", *arguments]
        if arguments[0] in AT_THE_WIRE:
            done = another_process.run(COUNTS, *arguments, cwd=home, env=variables(home))
        else:
            done = subprocess.run(command, cwd=home, env=variables(home), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return count


def hold(name: str, value: float) -> None:
    """Compare with the recorded number."""
    gate = GATES[name]
    assert value <= gate["at_most"], (
        f"{name}: {value:,.2f} is more than {gate['at_most']:,} (recorded: {gate['recorded']:,}). "
        "Make it cheaper again, or record the new number as benchmarks/gates.json says."
    )


# -- what is imported when ---------------------------------------------------------------------------------------------


def test_importing_the_kernel_brings_almost_nothing(count: Callable[..., Any]) -> None:
    hold("modules: import deep_core", len(count("modules_of_an_import", "deep_core")))


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_importing_a_plugin_brings_almost_nothing(count: Callable[..., Any], feature: str) -> None:
    hold("modules: import of a plugin", len(count("modules_of_an_import", f"deep_{feature}")))


def test_the_version_is_printed_without_the_kernel(count: Callable[..., Any]) -> None:
    modules = count("modules_of_a_command", "--version")
    hold("modules: deep --version", len(modules))
    assert not {"pydantic", "pydantic_ai", "pluggy", "rich"} & set(modules)


def test_plugins_are_listed_without_importing_one(count: Callable[..., Any]) -> None:
    modules = count("modules_of_a_command", "plugins", "list")
    hold("modules: deep plugins list", len(modules))
    assert not {"pydantic", "pydantic_ai", *(f"deep_{name}" for name in FEATURES if name != "cli")} & set(modules)
    assert not {"importlib_metadata", "packaging"} & set(modules)


@pytest.mark.slow
def test_a_first_request_imports_little_more_than_the_floor(count: Callable[..., Any]) -> None:
    floor = set(count("modules_of_a_request", "floor"))
    hold("modules: first request, beyond the floor", len(set(count("modules_of_a_request", OURS)) - floor))


# -- the turn ----------------------------------------------------------------------------------------------------------


def test_a_turn_is_one_request(count: Callable[..., Any]) -> None:
    assert count("requests", OURS, "5") == count("requests", "floor", "5") == 6


@pytest.mark.exhaustive
def test_a_turn_makes_few_more_calls_than_the_floor(count: Callable[..., Any]) -> None:
    ours, floor = count("calls_per_turn", OURS, "50"), count("calls_per_turn", "floor", "50")
    hold("calls in a turn of 50, ratio to the floor", ours["all"] / floor["all"])
    hold("calls in a turn of 50, of our own functions", ours["ours"])
    seven = count("calls_per_turn", "ours", "50")
    hold("calls in a turn of 50 with seven features, ratio to the floor", seven["all"] / floor["all"])


@pytest.mark.exhaustive
def test_a_request_costs_what_is_new_to_it(count: Callable[..., Any]) -> None:
    short, long = (count("calls_per_request", OURS, messages) for messages in ("100", "400"))
    assert short["ours"] > 100
    hold("calls of our own functions after 400 messages, ratio to 100", long["ours"] / short["ours"])


def test_a_request_carries_few_characters(count: Callable[..., Any]) -> None:
    hold("static characters", count("static_chars", OURS))


def test_a_request_of_the_small_profile_has_less_than_600_tokens(count: Callable[..., Any]) -> None:
    hold("static characters, small profile", count("static_chars", "ours:SMALL"))


@pytest.mark.slow
def test_a_long_task_takes_few_summaries(count: Callable[..., Any]) -> None:
    summaries = count("summaries", OURS)
    hold("summary calls in 120 turns", summaries)
    assert summaries >= 1, "the window of 60,000 tokens was never full: this measures nothing"


def test_the_page_is_few_bytes() -> None:
    static = REPOSITORY / "plugins/web/src/deep_web/static"
    files = [file for kind in ("html", "js", "css") for file in static.glob(f"*.{kind}")]
    hold("bytes of the page, without libraries", sum(file.stat().st_size for file in files))
    assert len(files) > 5


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_session_that_is_over_leaves_nothing_behind(count: Callable[..., Any]) -> None:
    hold("bytes kept of a session that is over", count("kept_per_session", OURS))


@pytest.mark.exhaustive
def test_a_page_of_a_big_file_is_read_without_the_file(count: Callable[..., Any]) -> None:
    hold("bytes at the peak while a page of 10 MB is read", count("peak_of_a_page", OURS))
    assert count("peak_of_a_page", "floor") > 10_000_000, "the floor reads it whole: the count is of the right thing"


def test_every_gate_is_held() -> None:
    source = Path(__file__).read_text("utf-8")
    assert [name for name in GATES if f'hold("{name}"' not in source] == []
