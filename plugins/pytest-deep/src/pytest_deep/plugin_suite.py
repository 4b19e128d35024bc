"""The conformance suite for plugins: subclass it in one line, and pytest runs one test for each rule."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from .problem import Problem, report

if TYPE_CHECKING:
    from .bench import Bench

__all__ = ["PluginConformance"]


class PluginConformance:
    """Subclass it in a test module and set the plugin:

        class TestConformance(PluginConformance):
            plugin = "acme_weather"

    Attributes:
        plugin: the plugin: its entry point's name, its module's name, its module, or an object with hooks as methods.
        plugin_options: its options, as in `[plugins.x] options`; None for its defaults.
        beside: other plugins that it needs, in the same form. The suite adds the owner of a hook that the plugin
            implements, if it is installed.
        examples: tool -> arguments of a good call, or a list of them. The suite replaces `{canary}` in their texts
            with a unique text per session. Without examples, it makes arguments from the tool's schema. It calls
            tools that ask for approval, or are tagged execute, network or destructive, only with examples.
        files: path -> text, in the workspace of every session.
        secrets: texts that its redactors hide. Without any, the suite tries usual ones: an e-mail address, a key.
        unredacted: kinds of part that its redactors leave on purpose, such as `thinking`; `pytest_deep.redaction.KINDS`
            lists them all.
        strict_import: whether a plugin that imports pydantic or Pydantic AI fails the test, instead of a warning.
            First-party plugins set it.
        max_static_chars: limit of one static section.
        max_live_chars: limit of one live section.
        max_description_chars: limit of one tool's description.
        max_hold_ms: how long one step may hold the event loop, in milliseconds.
    """

    plugin: ClassVar[object] = None
    plugin_options: ClassVar[Mapping[str, Any] | None] = None
    beside: ClassVar[Sequence[object]] = ()
    examples: ClassVar[Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]] = {}
    files: ClassVar[Mapping[str, str | bytes]] = {}
    secrets: ClassVar[Sequence[str]] = ()
    unredacted: ClassVar[Sequence[str]] = ()
    strict_import: ClassVar[bool] = False
    max_static_chars: ClassVar[int] = 2_000
    max_live_chars: ClassVar[int] = 4_000
    max_description_chars: ClassVar[int] = 1_200
    max_hold_ms: ClassVar[float] = 30

    @pytest.fixture
    def bench(self, tmp_path: Path, deep_home: Path) -> Iterator[Bench]:
        """The plugin, ready to run."""
        from .bench import Bench

        if self.plugin is None:
            pytest.fail(f'{type(self).__name__}: set the plugin: plugin = "acme_weather"', pytrace=False)
        try:
            bench = Bench(self, tmp_path)
        except LookupError as error:
            pytest.fail(f"{type(self).__name__}: {error.args[0]}", pytrace=False)
        yield bench
        bench.close()

    def _report(self, bench: Bench, problems: Iterator[Problem] | Sequence[Problem]) -> None:
        report(bench.subject.label, problems)

    # -- the distribution ----------------------------------------------------------------------------------------------

    def test_name_is_valid(self, bench: Bench) -> None:
        """The plugin's name is plain, and not a parameter of `create_deep_agent`."""
        from .declarations import check_name

        self._report(bench, check_name(bench.subject))

    def test_metadata_says_which_deep_core(self, bench: Bench) -> None:
        """The distribution requires deep-agent-core, with an upper bound. Skipped if it is not installed."""
        from .declarations import check_metadata

        if bench.subject.candidate is None:
            pytest.skip("it has no entry point, so no metadata")
        self._report(bench, check_metadata(bench.subject.candidate.point.host_range))

    def test_docs_are_there(self, bench: Bench) -> None:
        """The module has a docstring, the distribution a description and a README."""
        import importlib
        from importlib.metadata import Distribution

        from .declarations import check_docs

        subject = bench.subject
        documentation = inspect.getdoc(subject.obj) or importlib.import_module(subject.module).__doc__
        metadata = None
        if subject.candidate is not None:
            data: Any = Distribution.at(subject.candidate.point.dist_info).metadata
            metadata = {"summary": data.get("Summary", ""), "readme": data.get_payload() or data.get("Description", "")}
        self._report(bench, check_docs(subject, documentation, metadata))

    # -- the import ----------------------------------------------------------------------------------------------------

    def test_import_is_light(self, bench: Bench) -> None:
        """Importing the plugin loads neither pydantic nor Pydantic AI; else it warns, or fails if `strict_import`."""
        from deep_core import PluginWarning

        from .importing import import_apart

        imported = import_apart(bench.subject.module, bench.subject.sources)
        if imported.error:
            pytest.skip(f"it cannot be imported alone: {imported.error.splitlines()[-1]}")
        if self.strict_import:
            self._report(bench, imported.heavy)
        if imported.heavy:
            lines = "\n  ".join(map(str, imported.heavy))
            warnings.warn(f"plugin {bench.subject.label}\n  {lines}", PluginWarning, stacklevel=2)

    def test_import_has_no_side_effects(self, bench: Bench) -> None:
        """Importing the plugin, in a fresh interpreter, starts, writes, prints and changes nothing.

        It writes no file, starts no thread or process, opens no socket, and does not change the environment, the
        working directory, signals, warnings, the root logger, `logging.disable`, exception and import hooks, the
        locale, the recursion limit or `sys.path`.
        """
        from .importing import import_apart

        imported = import_apart(bench.subject.module, bench.subject.sources)
        if imported.error:
            module = bench.subject.module
            if bench.subject.candidate is None:
                pytest.skip(f"a fresh interpreter does not find the module {module}")
            change = "an installed module must be importable from anywhere"
            self._report(bench, [Problem(f"import {module}", f"raises {imported.error}", change)])
        self._report(bench, imported.effects)

    # -- the declarations ----------------------------------------------------------------------------------------------

    def test_hooks_are_valid(self, bench: Bench) -> None:
        """The plugin loads, its hooks and their arguments exist, and the kernel can create an agent."""
        from deep_core import PluginWarning

        from .declarations import check_owners, check_tool_names, static_tools

        sleeping = list(check_owners(bench.subject, bench.absent_owners))
        if bench.asleep:
            self._report(bench, sleeping)
        for problem in sleeping:
            warnings.warn(f"plugin {bench.subject.label}\n  {problem}", PluginWarning, stacklevel=2)
        failure: Exception | None = None
        try:
            bench.make_agent(bench.make_kernel())
        except Exception as error:  # noqa: BLE001 - any error is reported
            failure = error
        if list(check_tool_names(static_tools(bench.contributions("deep_toolsets")))):
            return  # test_tool_names_are_plain_and_unique reports it
        if failure is not None:
            self._report(bench, [Problem("loading", str(failure), "fix what the message names")])

    def test_options_have_valid_defaults(self, bench: Bench) -> None:
        """The options model needs no arguments, accepts its defaults, and rejects unknown keys."""
        from .declarations import check_options

        models = bench.kernel.option_models()
        if bench.subject.name not in models:
            pytest.skip("it has no options")
        self._report(bench, check_options(models[bench.subject.name]))

    def test_slots_round_trip(self, bench: Bench) -> None:
        """Every state slot has a new default each time, and survives storing and loading, also after a run."""
        from .declarations import check_slot, check_stored

        kernel = bench.kernel
        slots: list[Any] = bench.contributions("deep_state")
        if not slots:
            pytest.skip("it has no state")
        problems = [problem for slot in slots for problem in check_slot(slot, kernel)]
        if not problems:
            run = bench.require_success(bench.run(*bench.calls("canary")))
            problems = [problem for slot in slots for problem in check_stored(run.deps, slot, kernel)]
        self._report(bench, problems)

    def test_tool_names_are_plain_and_unique(self, bench: Bench) -> None:
        """Every provider accepts the tool names, each occurs once, and Pydantic AI reserves none of them."""
        from deep_core import tool_facts

        from .declarations import check_tool_names, static_tools

        kernel = bench.kernel
        try:
            agent = bench.make_agent(kernel)
        except Exception:  # noqa: BLE001 - the known names are checked anyway
            tools = static_tools(bench.contributions("deep_toolsets"))
        else:
            run = bench.require_success(bench.run(agent=agent))
            tools = static_tools(bench.contributions("deep_toolsets"))
            listed_names = {name for name, _ in tools}
            names = [tool_facts(tool).original for tool in bench.own_tools(run.requests[0])]
            tools += [(name, "listed at run time") for name in names if name not in listed_names]
        self._report(bench, check_tool_names(tools))

    def test_tools_are_described(self, bench: Bench) -> None:
        """Every tool has a description of at most `max_description_chars`."""
        from .declarations import check_descriptions

        self._report(bench, check_descriptions(bench.tools, self._places(bench), self.max_description_chars))

    def test_tool_schemas_say_what_they_take(self, bench: Bench) -> None:
        """Every parameter of a tool has a type or a description."""
        from .declarations import check_schemas

        self._report(bench, check_schemas(bench.tools, self._places(bench)))

    def _places(self, bench: Bench) -> dict[str, str]:
        from .declarations import static_tools

        return dict(static_tools(bench.contributions("deep_toolsets")))

    def test_sections_are_short(self, bench: Bench) -> None:
        """Sections stay within `max_static_chars` and `max_live_chars`, also after tools ran."""
        from .declarations import check_sizes

        problems = [*check_sizes(self._static(bench), self.max_static_chars, "max_static_chars")]
        problems += check_sizes(self._live(bench), self.max_live_chars, "max_live_chars")
        self._report(bench, problems)

    def test_sections_do_not_repeat_tools(self, bench: Bench) -> None:
        """No section repeats a tool's description."""
        from .declarations import check_repetition

        self._report(bench, check_repetition({**self._static(bench), **self._live(bench)}, bench.tools))

    def _static(self, bench: Bench) -> dict[str, str]:
        static = bench.parts(bench.agent).static
        return {s.value.name: str(s.value.text) for s in static if s.plugin == bench.subject.name}

    def _live(self, bench: Bench) -> dict[str, str]:
        from deep_core.plugin_api import last_live_texts

        run = bench.require_success(bench.run(*bench.calls("canary")))
        live_texts = last_live_texts(run.requests[-1].messages)
        own = f"{bench.subject.name}."
        return {name.removeprefix(own): live.text for name, live in live_texts.items() if name.startswith(own)}

    # -- the behavior --------------------------------------------------------------------------------------------------

    def test_order_does_not_matter(self, bench: Bench) -> None:
        """The contribution is the same alone, before and after another plugin."""
        from .behavior import check_order

        bench.require_success(bench.first)
        self._report(bench, check_order(bench))

    def test_sessions_share_nothing(self, bench: Bench) -> None:
        """Two sessions in step on one agent see nothing of each other, and the plugin keeps none of their data.

        Neither modules, classes, toolsets, closures nor function caches hold it afterwards.
        """
        from .behavior import check_sessions

        self._report(bench, check_sessions(bench))

    def test_event_loop_is_not_blocked(self, bench: Bench) -> None:
        """No step of a run holds the event loop in the plugin's code longer than `max_hold_ms`."""
        from .behavior import check_blocking

        self._report(bench, check_blocking(bench))

    def test_prompt_prefix_is_stable(self, bench: Bench) -> None:
        """Each request of a conversation repeats the tools, the prompt and every earlier message unchanged.

        A reducer may rewrite messages, but not in two requests in a row.
        """
        from .behavior import check_prefix

        self._report(bench, check_prefix(bench))

    def test_redactors_hide_in_every_part(self, bench: Bench) -> None:
        """A redactor hides a secret in every kind of part; a warning lists the kinds that it leaves.

        No history processor reaches the agent's instructions, so no redactor hides anything there.
        """
        from deep_core import PluginWarning

        from .redaction import examine

        findings = examine(bench)
        self._report(bench, findings.mistakes)
        if findings.gaps:
            lines = "\n  ".join(map(str, findings.gaps))
            warnings.warn(f"plugin {bench.subject.label}\n  {lines}", PluginWarning, stacklevel=2)

    def test_failures_are_contained(self, bench: Bench) -> None:
        """A run continues whatever the model sends to the tools.

        Sections, processors and observers do not raise, and neither do tools with your examples.
        """
        from .behavior import check_containment

        self._report(bench, check_containment(bench))

    def test_cancellation_is_not_swallowed(self, bench: Bench) -> None:
        """A task that is cancelled while the plugin waits ends as cancelled."""
        from .behavior import check_cancellation

        bench.require_success(bench.run(*bench.calls("canary")))
        self._report(bench, check_cancellation(bench))

    def test_unloads_cleanly(self, bench: Bench) -> None:
        """`kernel.close()` leaves no thread, task or open file; functions passed to `on_close` do not raise."""
        from .behavior import check_unload

        bench.require_success(bench.first)
        self._report(bench, check_unload(bench))
