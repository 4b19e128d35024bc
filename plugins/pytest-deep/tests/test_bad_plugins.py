"""Each bad plugin fails one check, by name and with advice; a good one passes all."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.authors_pytest import authors_pytest
from tests.docs_pages import SHOWN_DIFFERENTLY
from tests.drawn import sample

BAD = Path(__file__).parent / "bad"
CAUGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "keeps_notes": (
        "test_sessions_share_nothing",
        ("keeps_notes.NOTES: keeps the text of a session: 'canary-", "keep a session's data in a StateSlot"),
    ),
    "counts_calls": (
        "test_sessions_share_nothing",
        ("deep_toolsets[0]", ".calls: changed while sessions ran: 4 became 8", "keep a session's data"),
    ),
    "caches_notes": (
        "test_sessions_share_nothing",
        ("caches_notes.notebook.cache: keeps the text of a session: 'canary-", "keep a session's data"),
    ),
    "remembers_words": (
        "test_sessions_share_nothing",
        ("remembers_words.plain.cache: keeps the text of a session: 'canary-", "keep a session's data"),
    ),
    "shares_a_context": (
        "test_sessions_share_nothing",
        ("shares_a_context.NOTES.get(): keeps the text of a session: 'canary-", "keep a session's data"),
    ),
    "tells_notes": (
        "test_sessions_share_nothing",
        ("tool 'note': showed one session the text of another", "keep a session's data in a StateSlot"),
    ),
    "blocks_the_loop": (
        "test_event_loop_is_not_blocked",
        ("blocks_the_loop.py:17 in measure: held the event loop for", "await slow operations"),
    ),
    "computes_in_a_section": (
        "test_event_loop_is_not_blocked",
        ("in primes: held the event loop for", "to_thread.run_sync"),
    ),
    "rewrites_history": (
        "test_prompt_prefix_is_stable",
        ("request 2 of a conversation: message 1 changed: ", "a history processor keeps earlier messages unchanged"),
    ),
    "slides_a_window": (
        "test_prompt_prefix_is_stable",
        (" of a conversation: message 1 changed: ", "reduces them rarely and much, not at every request"),
    ),
    "raises_at_the_end": (
        "test_unloads_cleanly",
        ("on_close: raises KeyError: 'weather' at ", "raises_at_the_end.py:12", "never opened"),
    ),
    "imports_at_once": (
        "test_import_is_light",
        ("imports_at_once.py:5: loads pydantic_ai", "into the functions that use it"),
    ),
    "acts_at_import": (
        "test_import_has_no_side_effects",
        (
            "acts_at_import.py:10: writes the file weather.log",
            "changes the environment variable WEATHER_UNIT",
            "starts the thread 'weather'",
            "prints 'weather is here",
            "do it in a hook or",
        ),
    ),
    "prepares_at_import": (
        "test_import_has_no_side_effects",
        (
            "prepares_at_import.py:12: opens the database :memory:",
            "prepares_at_import.py:13: starts the thread 'weather-cache'",
            "changes logging.disable",
            "changes threading.excepthook",
            "changes the recursion limit",
        ),
    ),
    "names_twice": (
        "test_tool_names_are_plain_and_unique",
        ("tool 'forecast' (", "names_twice.py:12", "has the name of another tool", "rename one of them"),
    ),
    "says_nothing": (
        "test_tools_are_described",
        ("tool 'forecast' (", "says_nothing.py:14): has no description", "give it a docstring"),
    ),
    "doubts_its_defaults": (
        "test_options_have_valid_defaults",
        ("options WeatherOptions: does not accept its defaults: unit", "choose a default"),
    ),
    "forgets_its_keys": (
        "test_slots_round_trip",
        ("slot 'forecasts': is {'1': 'sunny'} after loading, but {1: 'sunny'} was stored", "declare a precise type"),
    ),
    "talks_too_much": (
        "test_sections_are_short",
        ("section 'manual': has 6400 characters; the limit is 2000", "shorten it"),
    ),
    "swallows_cancellation": (
        "test_cancellation_is_not_swallowed",
        ("swallows_cancellation.py:18 in forecast: was cancelled while it waited there", "with `raise`"),
    ),
    "swallows_in_a_processor": (
        "test_cancellation_is_not_swallowed",
        ("in shorten: was cancelled while it waited there", "with `raise`"),
    ),
    "ends_the_run": (
        "test_failures_are_contained",
        ("a call of forecast with", "ended with ValueError: no such city", "pydantic_ai.ModelRetry"),
    ),
    "refuses_to_see_an_agent": (
        "test_failures_are_contained",
        ("deep_agent_created: raises RuntimeError: no agent is good enough", "catch expected errors"),
    ),
    "names_twice_later": (
        "test_failures_are_contained",
        (
            "a run without calls: is refused: plugin names_twice_later (given by hand) has two tools of "
            "the name 'forecast'",
            "rename one of them",
        ),
    ),
    "tells_the_time": (
        "test_order_does_not_matter",
        ("the static sections: is [('now', 'It is ", " for one agent and [('now', 'It is ", "not on a clock"),
    ),
    "counts_its_neighbors": (
        "test_order_does_not_matter",
        ("the static sections: is [('tools', 'There are 0 other toolsets.')] alone and", "depend only on its options"),
    ),
    "repeats_itself": (
        "test_sections_do_not_repeat_tools",
        ("section 'weather': repeats the description of 'forecast'", "remove it from the section"),
    ),
    "takes_anything": (
        "test_tool_schemas_say_what_they_take",
        ("takes_anything.py:14): has no type or description for its parameter 'city'", "annotate it"),
    ),
    "misspells_a_hook": (
        "test_hooks_are_valid",
        ("there is no such hook. Did you mean 'deep_toolsets'?", "misspells_a_hook.py"),
    ),
    "has_no_docstring": (
        "test_docs_are_there",
        ("has_no_docstring: has no docstring", "say in one line what the plugin adds"),
    ),
    "leaves_a_thread": (
        "test_unloads_cleanly",
        ("kernel.close(): left the thread 'weather-watch'", "context.on_close"),
    ),
}
"""Plugin -> the check that catches it, and parts of its message."""
ONE_FOR_EACH_CHECK = {check: plugin for plugin, (check, _) in reversed(CAUGHT.items())}.values()


@dataclass(frozen=True)
class Result:
    """The result of one check of one plugin: `passed`, `skipped` or `failed`, and its text."""

    outcome: str
    text: str


Results = dict[str, dict[str, Result]]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The results of the suite in a pytest that loads only installed plugins.

    Where only some plugins are selected (`make test`), each bad one runs only the check that catches it: a second for
    each. With all of them, each runs all.
    """
    folder = tmp_path_factory.mktemp("author")
    selected = {item.name for item in request.session.items if item.path == request.path}
    plugins = [
        name for name in CAUGHT if f"{test_a_bad_plugin_is_caught_by_its_check_alone.__name__}[{name}]" in selected
    ]
    lines = ["from pytest_deep import PluginConformance"]
    for name in ("well_made", *plugins):
        lines += [f"class Test_{name}(PluginConformance):", f"    plugin = {name!r}", "    strict_import = True"]
    (folder / "test_all.py").write_text("\n".join(lines), encoding="utf-8")
    if len(plugins) == len(CAUGHT):
        return run(folder, "test_all.py")
    chosen = " or ".join(["Test_well_made", *(f"(Test_{name} and {CAUGHT[name][0]})" for name in plugins)])
    return run(folder, "test_all.py", "-k", chosen)


def run(folder: Path, *arguments: str) -> Results:
    """Run pytest in a process, and read its report."""
    report = folder / "report.xml"
    variables = {name: value for name, value in os.environ.items() if name not in SHOWN_DIFFERENTLY}
    done = subprocess.run(
        authors_pytest(folder, f"--junitxml={report}", *arguments),
        cwd=folder,
        env={**variables, "PYTHONPATH": str(BAD)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    found: Results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        outcome = {None: "passed", "skipped": "skipped"}.get(problem.tag if problem is not None else None, "failed")
        text = "" if problem is None else f"{problem.get('message')}\n{problem.text}"
        plugin = case.attrib["classname"].rpartition("Test_")[2]
        found.setdefault(plugin, {})[case.attrib["name"]] = Result(outcome, text)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("plugin", sample(CAUGHT, *ONE_FOR_EACH_CHECK))
def test_a_bad_plugin_is_caught_by_its_check_alone(results: Results, plugin: str) -> None:
    check, parts = CAUGHT[plugin]
    failed = {name: result.text for name, result in results[plugin].items() if result.outcome == "failed"}
    assert list(failed) == [check], failed
    text = failed[check]
    assert text.startswith(f"Failed: plugin {plugin}\n") or f"plugin {plugin}\n" in text
    assert [part for part in parts if part not in text] == [], text
    assert "change: " in text


@pytest.mark.slow
def test_a_good_plugin_passes_every_check(results: Results) -> None:
    outcomes = {name: result.outcome for name, result in results["well_made"].items()}
    assert outcomes.pop("test_metadata_says_which_deep_core") == "skipped"  # it is not installed
    assert set(outcomes.values()) == {"passed"}, results["well_made"]
    assert len(outcomes) == 20


@pytest.mark.exhaustive
def test_a_heavy_import_of_a_third_party_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "from pytest_deep import PluginConformance\n"
        "class Test_imports_at_once(PluginConformance):\n    plugin = 'imports_at_once'\n",
        encoding="utf-8",
    )
    light = "test_import_is_light"
    assert run(tmp_path, "-k", light)["imports_at_once"][light].outcome == "passed"
    strict = run(tmp_path, "-k", light, "-W", "error::deep_core.PluginWarning")
    assert strict["imports_at_once"][light].outcome == "failed"
    assert "loads pydantic_ai when the plugin is imported\n" in strict["imports_at_once"][light].text
