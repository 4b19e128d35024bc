"""Whatever a plugin raises, SystemExit and a panic in Rust included, the application goes on; Ctrl-C still ends it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import FunctionToolset
from pydantic_ai.toolsets import WrapperToolset

from deep_core import Kernel, PluginError, PluginOptions, Processor, PromptSection
from deep_core.errors import reraise_control
from tests.plugins_by_hand import Site, Tools, agent_of, kernel_of, outcomes, plugin, run, scripted, site
from tests.stubs import Call

__all__ = ["site"]


class PanicException(BaseException):
    """As pyo3 raises it: no subclass of Exception."""


ESCAPING = [SystemExit, PanicException]
CONTROL = [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]


class Entering(WrapperToolset[Any]):
    """A toolset that cannot be entered."""

    error: type[BaseException] = SystemExit

    async def __aenter__(self) -> Any:
        raise self.error("gone")


class Listing(WrapperToolset[Any]):
    """A toolset that cannot list its tools."""

    error: type[BaseException] = SystemExit

    async def get_tools(self, ctx: Any) -> Any:
        raise self.error("gone")


def places(error: type[BaseException]) -> dict[str, object]:
    """A plugin for each place in which a plugin's code runs."""

    def fail(*_: Any) -> Any:
        raise error("gone")

    async def fail_later(*_: Any) -> Any:
        raise error("gone")

    class Wrong(PluginOptions):
        """Options whose validator fails."""

        @classmethod
        def model_construct(cls, *args: Any, **values: Any) -> Any:
            raise error("gone")

    def processing(function: Callable[..., Any]) -> list[Processor]:
        async def process(messages: list[Any]) -> list[Any]:
            return function(messages)

        return [Processor("one", process if function is fail else function)]

    entering, listing = Entering(FunctionToolset(id="entering")), Listing(FunctionToolset(id="listing"))
    entering.error = listing.error = error
    return {
        "a contribution": plugin("bad", toolsets=lambda: fail()),
        "options": plugin("bad", options=Wrong),
        "a fixed section": plugin("bad", sections=[PromptSection.static("one", lambda: fail())]),
        "a live section": plugin("bad", sections=[PromptSection.live("one", fail)]),
        "an async live section": plugin("bad", sections=[PromptSection.live("one", fail_later)]),
        "a processor in a thread": plugin("bad", processors=[Processor("one", lambda messages: fail())]),
        "an async processor": plugin("bad", processors=processing(fail)),
        "an event": plugin("bad", run_event=lambda event: fail()),
        "the creation of an agent": plugin("bad", agent_created=lambda agent: fail()),
        "a model": plugin("bad", resolve_model=lambda model_id: fail()),
        "entering a toolset": plugin("bad", toolsets=[entering]),
        "listing tools": plugin("bad", toolsets=[listing]),
        "closing": plugin("bad", toolsets=lambda context: context.on_close(fail) or []),
    }


WHILE_IT_IS_MADE = ("a contribution", "options")
PLACES = [place for place in places(SystemExit) if place not in WHILE_IT_IS_MADE]


@pytest.mark.parametrize("error", ESCAPING)
@pytest.mark.parametrize("place", PLACES)
def test_the_application_continues_whatever_a_plugin_raises(place: str, error: type[BaseException]) -> None:
    tools = Tools("look")
    kernel = kernel_of(places(error)[place], plugin("good", toolsets=[tools.toolset]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent = kernel.create_agent("test" if place == "a model" else scripted(Call("look", {})))
        result = run(agent, model=scripted(Call("look", {})))
        kernel.close()
    assert (result.output, tools.names) == ("done", ["look"])
    told = [*map(str, kernel.incidents), *(str(warning.message) for warning in caught)]
    assert any("bad" in text and error.__name__ in text for text in told)


@pytest.mark.parametrize("error", ESCAPING)
@pytest.mark.parametrize("place", WHILE_IT_IS_MADE)
def test_a_plugin_given_by_hand_fails_with_the_kernels_error(place: str, error: type[BaseException]) -> None:
    with pytest.raises(PluginError, match=f"plugin bad .* failed: .*{error.__name__}: gone"):
        agent_of(places(error)[place])


@pytest.mark.parametrize("error", ESCAPING)
@pytest.mark.parametrize("is_async", [False, True], ids=["in a thread", "async"])
def test_a_tool_that_raises_is_a_failed_call(error: type[BaseException], is_async: bool) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset(id="bad")

    def leave() -> str:
        """Leave."""
        raise error("gone")

    async def leave_later() -> str:
        """Leave."""
        raise error("gone")

    toolset.add_function(leave_later if is_async else leave, name="leave")
    tools = Tools("look")
    agent = agent_of(
        plugin("bad", toolsets=[toolset]),
        plugin("good", toolsets=[tools.toolset]),
        model=scripted([Call("leave", {}), Call("look", {})]),
    )
    result = run(agent)
    assert result.output == "done"
    assert sorted(outcomes(result)) == [("leave", "failed"), ("look", "success")]


@pytest.mark.parametrize("error", ESCAPING)
def test_a_check_that_raises_denies(error: type[BaseException]) -> None:
    def fail(call: Any) -> Any:
        raise error("gone")

    tools = Tools("look")
    agent = agent_of(
        plugin("guard", check_call=fail),
        plugin("good", toolsets=[tools.toolset]),
        model=scripted(Call("look", {})),
    )
    result = run(agent)
    assert (outcomes(result), tools.ran) == ([("look", "failed")], [])


@pytest.mark.parametrize("error", ESCAPING)
def test_a_predicate_that_raises_asks(error: type[BaseException]) -> None:
    def fail(call: Any) -> bool:
        raise error("gone")

    tools = Tools("look")
    agent = agent_of(
        plugin("good", toolsets=[tools.toolset]), model=scripted(Call("look", {})), interrupt_on={"look": fail}
    )
    assert [call.tool_name for call in run(agent).output.approvals] == ["look"]
    assert tools.ran == []


def test_a_panic_at_import_fails_one_plugin(site: Site) -> None:
    site.install("bad", "class PanicException(BaseException): pass\nraise PanicException('index out of bounds')")
    site.install("good", "from deep_core import hookimpl\n@hookimpl\ndef deep_state(): return []")
    with pytest.warns(UserWarning, match=r"plugin bad .* PanicException: index out of bounds"):
        kernel = Kernel()
    assert (kernel.plugins["bad"].status, kernel.plugins["good"].status) == ("failed", "active")


@pytest.mark.parametrize("error", CONTROL)
def test_what_ends_a_program_or_a_task_is_raised_on(error: type[BaseException]) -> None:
    for raised in (error(), BaseExceptionGroup("several", [ValueError(), error()])):
        with pytest.raises(type(raised)):
            reraise_control(raised)
    for contained in (SystemExit(), PanicException(), ValueError(), BaseExceptionGroup("several", [SystemExit()])):
        reraise_control(contained)


@pytest.mark.parametrize("place", ["a live section", "an async processor", "an event", "listing tools"])
def test_ctrl_c_in_a_plugin_ends_the_run(place: str) -> None:
    agent = agent_of(places(KeyboardInterrupt)[place])
    with pytest.raises(KeyboardInterrupt):
        run(agent)
