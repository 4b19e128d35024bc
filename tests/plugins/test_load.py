"""Broken plugins, one of each kind, beside a good one: the application runs, the good one works, each is accounted for.

The plugins are the modules of `fixtures/broken`.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_ai import FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from deep_core import Kernel, PluginError, PluginWarning, create_default_deps, hookimpl
from deep_core.plugins.status import find_plugins
from tests.drawn import sample
from tests.environments import FIXTURES, REPOSITORY, Distribution, Environment, Here

GOOD = Distribution("acme-good", {"good": "acme_good"}, {"acme_good.py": (FIXTURES / "good.py").read_text("utf-8")})
GREET = ("greet", {"name": "Ann"})


@dataclass(frozen=True)
class Broken:
    """One kind of broken plugin and what must be said of it.

    Attributes:
        kind: the module in `fixtures/broken`.
        status: of the plugin.
        reason: texts that its reason must have: what is wrong, and what to type.
        entry: what the entry point names in the module.
        requires: what its distribution requires.
    """

    kind: str
    status: str
    reason: tuple[str, ...]
    entry: str = ""
    requires: tuple[str, ...] = ("deep-agent-core>=0.1,<1",)

    @property
    def module(self) -> str:
        return f"broken_{self.kind}"

    @property
    def distribution(self) -> Distribution:
        text = (FIXTURES / "broken" / f"{self.kind}.py").read_text("utf-8")
        name = f"acme-{self.kind.replace('_', '-')}"
        entry = self.module + self.entry
        return Distribution(name, {self.kind: entry}, {f"{self.module}.py": text}, requires=self.requires)


DISABLE = "plugins.disable = ["
LOADING = [
    Broken("import_error", "failed", ("ImportError: cannot import name 'no_such_name'", ".py:3", DISABLE)),
    Broken("module_not_found", "failed", ("no_such_library_at_all", "pip install no_such_library_at_all")),
    Broken("syntax_error", "failed", ("SyntaxError", ".py:3", DISABLE)),
    Broken("system_exit", "failed", ("SystemExit: usage: system_exit FILE", DISABLE)),
    Broken("missing_attribute", "failed", ("has no 'plugn'", "Did you mean 'plugin'?", DISABLE), ":plugn"),
    Broken("misspelt_hook", "failed", ("there is no such hook", "Did you mean 'deep_toolsets'?", ".py:6", DISABLE)),
    Broken("wrong_argument", "failed", ("unknown argument 'contxt'", "Did you mean 'context'?", ".py:6", DISABLE)),
    Broken("async_hook", "failed", ("must be a plain function, not async", ".py:6", DISABLE)),
    Broken("wrapper_hook", "failed", ("wrapper=True is not supported", ".py:6", DISABLE)),
    Broken("no_hook", "failed", ("implements no hook", "@deep_core.hookimpl", DISABLE)),
    Broken("raising_specs", "failed", ("the specs broke", DISABLE)),
    Broken("raising_state", "failed", ("hook deep_state", "the slots broke", DISABLE)),
    Broken(
        "unreadable_error", "failed", ("RemoteError: (its message cannot be read: AttributeError)", ".py:9", DISABLE)
    ),
    Broken("endless_error", "failed", ("ValueError: not a forecast: <td>rain</td> <td>", "…", ".py:3", DISABLE)),
    Broken("raising_constructor", "failed", ("the constructor broke", DISABLE), ":Plugin"),
    Broken("missing_extra", "needs-extra", ("pip install 'deep-skills[pdf]'",)),
    Broken("too_new", "incompatible", ("deep-agent-core >=99", "pip install"), "", ("deep-agent-core>=99",)),
    Broken(
        "missing_plugin", "needs-plugin", ("pip install deep-nowhere",), "", ("deep-agent-core", "deep-nowhere>=0.1")
    ),
]
"""Those that are found out when plugins are loaded."""

CONTRIBUTING = [
    Broken("raising_hook", "failed", ("hook deep_capabilities", "RuntimeError: the hook broke", DISABLE)),
    Broken("exiting_hook", "failed", ("hook deep_toolsets", "SystemExit: 3", DISABLE)),
    Broken("raising_generator", "failed", ("hook deep_prompt_sections", "the generator broke", DISABLE)),
    Broken("raising_options", "failed", ("hook deep_options", "the options broke", DISABLE)),
    Broken("wrong_type", "failed", ("hook deep_toolsets", "expected AbstractToolsets, got str", DISABLE)),
    Broken("not_a_list", "failed", ("hook deep_toolsets", "expected a list, got FunctionToolset", DISABLE)),
    Broken("wrong_mapping", "failed", ("hook deep_backends", "expected a mapping of names, got list", DISABLE)),
    Broken("wrong_processor", "failed", ("hook deep_history_processors", "must be callable", DISABLE)),
    Broken("capability_class", "failed", ("hook deep_capabilities", "return an instance", DISABLE)),
    Broken("wrong_options", "failed", ("hook deep_options", "PluginOptions", DISABLE)),
    Broken("missing_extra_in_hook", "needs-extra", ("pip install", "acme-maps[pdf]")),
]
"""Those that are found out when an agent is made."""

BROKEN = {broken.kind: broken for broken in (*LOADING, *CONTRIBUTING)}
RUNNING = {
    *("raising_live_section", "raising_processor", "stopping_processor", "raising_redactor", "raising_tool"),
    *("raising_observer", "raising_check", "raising_property", "raising_static_section", "slow_import"),
    "unreadable_tool_error",
}
"""Those that load and contribute, and go wrong in a run, or not at all."""


def installed(kind: str) -> Distribution:
    """A plugin of `RUNNING`, as a distribution."""
    return Broken(kind, "active", (), ":Plugin" if kind == "raising_property" else "").distribution


def test_every_broken_plugin_of_the_fixtures_is_tested() -> None:
    kinds = {path.stem for path in (FIXTURES / "broken").glob("*.py")}
    assert kinds == BROKEN.keys() | RUNNING | {"os_exit"}


def works(report: Mapping[str, Any]) -> None:
    """The application ran to its end, and the good plugin did all that it should."""
    assert report["error"] is None
    assert report["output"] == "done"
    assert report["plugins"]["good"] == ["active", ""]
    assert report["returns"]["greet"] == ["success", "Hello, Ann!"]
    assert "Be kind." in report["prompts"][0]


def accounted_for(broken: Broken, report: Mapping[str, Any]) -> None:
    """The broken plugin has its status, a reason that says what is wrong and what to type, and one warning."""
    label = f"{broken.kind} 1.0 ({broken.distribution.name})"
    status, reason = report["plugins"][broken.kind]
    said = f"plugin {label} is {status}: {reason}"
    if broken in CONTRIBUTING:  # it failed for this agent: the kernel goes on asking it
        assert (status, reason) == ("active", "")
        (left_out,) = [item for item in report["explanation"]["left_out"] if item["plugin"] == broken.kind]
        status, reason = left_out["status"], left_out["reason"]
        said = f"plugin {label} failed and was left out of an agent: {reason}"
        assert [text for text in report["incidents"] if text.startswith(f"plugin {broken.kind},")]
    assert status == broken.status
    for text in broken.reason:
        assert text in reason
    assert [text for text in report["warnings"] if label in text] == [said]


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_broken_plugin_is_left_out_with_one_warning_and_everything_else_works(here: Here, kind: str) -> None:
    here.install(GOOD, BROKEN[kind].distribution)
    report = here.application(GREET)
    works(report)
    accounted_for(BROKEN[kind], report)
    assert report["tools"][0] == ["greet"]
    assert "HALF A PLUGIN" not in report["prompts"][0]
    assert len(report["warnings"]) == 1


def test_all_broken_plugins_together_leave_the_application_standing(environment: Environment) -> None:
    environment.install(GOOD, *(broken.distribution for broken in BROKEN.values()))
    report = environment.application(GREET)
    works(report)
    listed = environment.listed()  # what `deep plugins list` shows next, importing none
    for broken in BROKEN.values():
        accounted_for(broken, report)
        status, reason = report["plugins"][broken.kind]
        before = "at its last load: " if broken in LOADING and status in ("failed", "needs-extra") else ""
        assert (listed[broken.kind]["status"], listed[broken.kind]["reason"]) == (status, before + reason)
    assert not {broken.module for broken in BROKEN.values()} & set(listed.imported)


@pytest.mark.parametrize(
    "garbage", sample([b"[deep]\nnot an entry point\n", b"[deep]\nbad = \xff\xfe\n"], b"[deep]\nbad = \xff\xfe\n")
)
def test_unreadable_metadata_takes_nothing_down(environment: Environment, garbage: bytes) -> None:
    """Pydantic reads every distribution's entry points when its first model is made; this one would end it there.

    An application that imports Pydantic AI before it makes a kernel is past helping: that import raises.
    """
    environment.install(GOOD)
    folder = environment.site / "acme_garbage-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-garbage\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_bytes(garbage)
    program = (
        "from deep_core import Kernel, create_default_deps\n"
        "kernel = Kernel()\n"
        "agent = kernel.create_agent('test')\n"
        "print(agent.run_sync('go', deps=create_default_deps(kernel=kernel)).output)\n"
    )
    done = environment.run(environment.python, "-c", program)
    assert done.code == 0, done.err
    assert "Hello, a!" in done.out
    assert "acme-garbage" in done.err
    assert "its metadata cannot be read" in done.err
    assert "pip install --force-reinstall acme-garbage" in done.err


@pytest.mark.parametrize("kind", ["too_new", "missing_plugin"])
def test_what_may_not_load_is_never_imported(environment: Environment, kind: str) -> None:
    environment.install(BROKEN[kind].distribution)
    assert BROKEN[kind].module not in environment.loaded().imported


@pytest.mark.parametrize("kind", [broken.kind for broken in LOADING])
def test_a_broken_plugin_that_was_named_raises(here: Here, kind: str) -> None:
    here.install(GOOD, BROKEN[kind].distribution)
    with pytest.raises(PluginError) as caught:
        Kernel(require=[kind])
    assert caught.value.plugin == kind
    for text in BROKEN[kind].reason:
        assert text in str(caught.value)


@pytest.mark.parametrize("how", [{"raising_hook": True}, {"raising_hook": {}}, {"include_raising_hook": True}])
def test_a_plugin_named_by_keyword_that_fails_to_contribute_raises(here: Here, how: dict[str, Any]) -> None:
    here.install(BROKEN["raising_hook"].distribution)
    with Kernel() as kernel, pytest.raises(PluginError, match="the hook broke") as caught:
        kernel.create_agent("test", **how)
    label = "plugin raising_hook 1.0 (acme-raising-hook)"
    assert caught.value.plugin == "raising_hook"
    assert str(caught.value).startswith(f"{label} failed: hook deep_capabilities: RuntimeError: the hook broke at ")
    assert caught.value.__cause__ is not None
    assert f"{label}, hook deep_capabilities" in caught.value.__cause__.__notes__


def test_the_traceback_of_a_failure_is_kept(here: Here) -> None:
    here.install(BROKEN["import_error"].distribution)
    with pytest.warns(PluginWarning):
        kernel = Kernel()
    text = "".join(traceback.format_exception(kernel.plugins["import_error"].error))
    assert "broken_import_error.py" in text
    assert "no_such_name" in text
    assert "plugin import_error 1.0 (acme-import-error)" in text


# -- in a run ----------------------------------------------------------------------------------------------------------


def test_a_raising_tool_is_a_failed_result_and_the_run_continues(here: Here) -> None:
    here.install(GOOD, installed("raising_tool"))
    report = here.application(("explode", {}), GREET)
    works(report)
    assert report["returns"]["explode"] == ["failed", "RuntimeError: the tool broke (plugin raising_tool)"]
    (incident,) = report["incidents"]
    assert incident.startswith("plugin raising_tool, tool explode: RuntimeError: the tool broke")


def test_an_error_that_cannot_be_written_out_is_contained_as_any_other(here: Here) -> None:
    here.install(GOOD, installed("unreadable_tool_error"))
    with Kernel() as kernel, kernel.trace() as trace:
        agent = kernel.create_agent(TestModel())
        asyncio.run(agent.run("Go.", deps=create_default_deps(kernel=kernel)))
        told = [str(incident) for incident in kernel.incidents]
    unread = "RemoteError: (its message cannot be read: AttributeError)"
    for where in ("tool explode", "processor broken", "hook deep_run_event"):
        assert any(f"{where}: {unread}" in text for text in told)
    assert unread in {step.outcome for step in trace.steps}


def test_a_reason_is_one_line_that_can_be_read(here: Here) -> None:
    here.install(BROKEN["endless_error"].distribution)
    with pytest.warns(PluginWarning):
        reason = Kernel().plugins["endless_error"].reason
    assert len(reason.splitlines()) == 1
    assert len(reason) < 1000


def test_a_raising_static_section_is_left_out_and_the_plugin_stays(here: Here) -> None:
    here.install(GOOD, installed("raising_static_section"))
    report = here.application(GREET)
    works(report)
    assert report["plugins"]["raising_static_section"] == ["active", ""]
    assert report["prompts"][0] == "Be kind.\n\nThe text beside it."
    assert any("the text broke" in incident for incident in report["incidents"])


def test_a_raising_live_section_keeps_what_was_last_sent(here: Here) -> None:
    here.install(GOOD, installed("raising_live_section"))
    report = here.application(GREET, GREET)
    works(report)
    # Explaining the agent was the call that succeeded, so in the run it has never spoken, and nothing is withdrawn.
    assert not any("SPOKE" in text for request in report["requests"] for text in request)
    assert [i for i in report["incidents"] if "section broken: RuntimeError: the section broke" in i]


def test_a_raising_processor_that_may_be_passed_over_leaves_the_history_as_it_was(here: Here) -> None:
    here.install(GOOD, installed("raising_processor"))
    report = here.application(GREET)
    works(report)
    assert report["requests"][-1][0] == "Go on."
    assert any("processor broken: RuntimeError: the processor broke" in i for i in report["incidents"])


@pytest.mark.parametrize(
    ("kind", "text"), [("stopping_processor", "the processor broke"), ("raising_redactor", "the redactor broke")]
)
def test_a_raising_processor_that_must_hold_stops_the_run_before_anything_is_sent(
    here: Here, kind: str, text: str
) -> None:
    here.install(GOOD, installed(kind))
    sent: list[object] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(messages)
        return ModelResponse(parts=[])

    kernel = Kernel()
    agent = kernel.create_agent(FunctionModel(answer))
    with pytest.raises(RuntimeError, match=text) as caught:
        asyncio.run(agent.run("Go on.", deps=create_default_deps(kernel=kernel)))
    assert sent == []
    assert f"plugin {kind}, processor broken" in caught.value.__notes__


def test_observers_that_raise_are_recorded_and_change_nothing(here: Here) -> None:
    here.install(GOOD, installed("raising_observer"))
    report = here.application(GREET)
    works(report)
    assert any("hook deep_agent_created" in incident for incident in report["incidents"])
    assert any("hook deep_run_event" in incident for incident in report["incidents"])


def test_a_raising_check_denies_the_call(here: Here) -> None:
    here.install(GOOD, installed("raising_check"))
    report = here.application(GREET)
    assert report["output"] == "done"
    outcome, text = report["returns"]["greet"]
    assert outcome == "failed"
    assert "raising_check" in text
    assert "denied" in text.lower()


def test_a_raising_property_is_never_touched(here: Here) -> None:
    here.install(GOOD, installed("raising_property"))
    report = here.application(GREET)
    works(report)
    assert report["plugins"]["raising_property"] == ["active", ""]
    assert "BESIDE A PROPERTY" in report["prompts"][0]
    assert report["warnings"] == []


def test_a_slow_import_works_and_what_it_took_is_printed_without_waiting_again(here: Here) -> None:
    here.install(GOOD, installed("slow_import"))
    report = here.application(GREET)
    works(report)
    assert "SLOW BUT SURE" in report["prompts"][0]
    here.forget()
    (slow,) = (record for record in find_plugins().records if record.name == "slow_import")
    assert slow.import_ms is not None
    assert slow.import_ms >= 2000  # it sleeps so long
    assert here.forget() == []


def test_a_strict_kernel_lets_a_tools_exception_through(here: Here) -> None:
    here.install(installed("raising_tool"))
    kernel = Kernel(strict=True)
    with pytest.raises(RuntimeError, match="the tool broke"):
        asyncio.run(kernel.create_agent(TestModel()).run("Go.", deps=create_default_deps(kernel=kernel)))


# -- a plugin that ends the process ------------------------------------------------------------------------------------

OS_EXIT = Broken("os_exit", "active", ()).distribution


def test_a_plugin_that_ends_the_process_proves_that_a_survey_imports_none(environment: Environment) -> None:
    environment.install(GOOD, OS_EXIT)
    assert environment.listed().statuses == {"good": "active", "os_exit": "active"}
    died = environment.run(environment.python, "-c", "from deep_core import Kernel; Kernel()")
    assert died.code == 86  # it does what it says, so the survey above did not import it


def test_a_plugin_that_ends_the_process_can_be_disabled(environment: Environment) -> None:
    environment.install(GOOD, OS_EXIT)
    works(environment.application(GREET, env={"DEEP_PLUGINS_DISABLE": "os_exit"}))


# -- the command line --------------------------------------------------------------------------------------------------

CLI = [Distribution.of_project(REPOSITORY / "plugins" / name) for name in ("cli", "sessions")]


def deep(environment: Environment, *arguments: str, code: int = 0) -> Any:
    """The JSON that a command prints."""
    done = environment.fork("-m", "deep_cli", *arguments)
    assert done.code == code, done.err
    return json.loads(done.out)


def test_list_shows_every_broken_plugin_with_status_and_reason_and_imports_none(environment: Environment) -> None:
    environment.install(*CLI, GOOD, OS_EXIT, *(broken.distribution for broken in BROKEN.values()))
    listed = {plugin["name"]: plugin for plugin in deep(environment, "plugins", "list", "--json")["plugins"]}
    assert listed.keys() == {"cli", "good", "os_exit", "sessions", *BROKEN}
    assert (listed["os_exit"]["status"], listed["os_exit"]["hooks"]) == ("active", None)  # it would have told
    for kind in ("too_new", "missing_plugin"):  # known without an import
        assert listed[kind]["status"] == BROKEN[kind].status
    environment.uninstall(OS_EXIT)
    environment.application(GREET)
    listed = {plugin["name"]: plugin for plugin in deep(environment, "plugins", "list", "--json")["plugins"]}
    for kind, broken in {broken.kind: broken for broken in LOADING}.items():
        assert listed[kind]["status"] == broken.status
        for text in broken.reason:  # what is typed to install is said in the words of this environment
            assert text.removeprefix("pip install ") in listed[kind]["reason"]


@pytest.mark.slow
def test_the_doctor_survives_a_plugin_that_ends_the_process_and_names_it(environment: Environment) -> None:
    environment.install(*CLI, GOOD, OS_EXIT)
    checks = {check["name"]: check for check in deep(environment, "doctor", "--json", code=1)["checks"]}
    assert checks["plugin:good"]["ok"] is True
    assert checks["plugin:os_exit"]["ok"] is False
    assert "86" in checks["plugin:os_exit"]["message"]
    assert "plugins.disable = ['os_exit']" in checks["plugin:os_exit"]["fix"]
    assert checks["agent"]["ok"] is False


@pytest.mark.exhaustive
def test_the_doctor_names_broken_plugins_of_every_status_and_what_to_type(environment: Environment) -> None:
    kinds = ["missing_extra", "missing_extra_in_hook", "missing_plugin", "raising_hook", "system_exit", "too_new"]
    environment.install(*CLI, GOOD, *(BROKEN[kind].distribution for kind in kinds))
    report = deep(environment, "doctor", "--json", code=1)
    checks = {check["plugin"]: check for check in report["checks"] if check["name"].startswith("plugin:")}
    assert checks["good"]["ok"] is True
    for kind in kinds:
        assert checks[kind]["ok"] is False
        assert BROKEN[kind].status in checks[kind]["message"]
        ways = ("pip install", "deep plugins install", DISABLE)
        assert any(way in checks[kind]["fix"] for way in ways)
    assert "deep-skills[pdf]" in checks["missing_extra"]["fix"]
    assert "acme-maps[pdf]" in checks["missing_extra_in_hook"]["fix"]
    assert "install deep-nowhere" in checks["missing_plugin"]["fix"]
    assert "deep-agent-core>=99" in checks["too_new"]["fix"]


@pytest.mark.slow
def test_a_plugin_that_ends_the_process_can_be_uninstalled(environment: Environment) -> None:
    environment.install(*CLI, GOOD, OS_EXIT)
    done = environment.run(environment.python, "-m", "deep_cli", "plugins", "uninstall", "os_exit", "--yes")
    assert done.code == 0, done.err
    assert environment.listed().statuses == {"cli": "active", "good": "active", "sessions": "active"}
    assert environment.loaded().statuses == {"cli": "active", "good": "active", "sessions": "active"}


# -- interleaved -------------------------------------------------------------------------------------------------------


def test_a_failure_in_one_kernel_is_not_one_in_another() -> None:
    """Nothing is global: two kernels in one process and one event loop, one of them with a tool that raises."""

    class Worker:
        def __init__(self, fails: bool) -> None:
            self.fails = fails

        @hookimpl
        def deep_toolsets(self, context: object) -> list[Any]:
            toolset: FunctionToolset[Any] = FunctionToolset(id="tools")

            @toolset.tool_plain
            async def work() -> str:  # pyright: ignore[reportUnusedFunction]
                await asyncio.sleep(0)
                if self.fails:
                    raise RuntimeError("broke")
                return "worked"

            return [toolset]

    async def both() -> list[int]:
        kernels = [Kernel(plugins=[Worker(fails)], discover=False) for fails in (True, False)]
        agents = [kernel.create_agent(TestModel()) for kernel in kernels]
        pairs = zip(kernels, agents, strict=True)
        await asyncio.gather(*(agent.run("Go.", deps=create_default_deps(kernel=kernel)) for kernel, agent in pairs))
        return [len(kernel.incidents) for kernel in kernels]

    assert asyncio.run(both()) == [1, 0]
