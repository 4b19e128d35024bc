"""The same call with the same result is told to the model, then ends the run. Budgets are told before they end one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import deep_guards
import deep_subagents
import pytest
from deep_guards import GuardsOptions, StuckLoop
from pydantic_ai import FunctionToolset
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import UsageLimits

from deep_core import Deny, Kernel, create_default_deps
from deep_core.plugin_api import last_live_texts
from tests.plugins_by_hand import pending, plugin, returns, run, scripted
from tests.stubs import Call


def told(messages: Sequence[ModelMessage]) -> str:
    """The warning that holds at the end of a conversation."""
    said = last_live_texts(messages).get("guards.warning")
    return "" if said is None else said.text


class Answers:
    """A tool that answers what the test says, and counts."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.count = list(answers), 0
        self.toolset: FunctionToolset[Any] = FunctionToolset(id="weather")
        self.toolset.add_function(self.forecast, name="forecast", metadata={"tags": ["read"]})

    def forecast(self, city: str, days: int = 1) -> str:
        """The weather."""
        answer = self.answers[min(self.count, len(self.answers) - 1)]
        self.count += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def kernel_of(answers: Answers, *more: object, **options: Any) -> Kernel:
    config = {"plugins": {"guards": {"options": options}}}
    return Kernel(
        plugins=[deep_guards, plugin("weather", toolsets=[answers.toolset]), *more], discover=False, config=config
    )


def calls(times: int, args: Sequence[dict[str, Any]] = ({"city": "Oslo"},)) -> list[Call]:
    return [Call("forecast", args[n % len(args)], id=f"c{n}") for n in range(times)]


def play(answers: Answers, script: list[Call], *more: object, **options: Any) -> Any:
    with kernel_of(answers, *more, **options) as kernel:
        agent = kernel.create_agent(scripted(*script))
        return run(agent, deps=create_default_deps(kernel=kernel))


def test_the_third_equal_result_reaches_the_model_and_the_fifth_ends_the_run() -> None:
    assert told(play(Answers("rain"), calls(2)).all_messages()) == ""
    said = told(play(Answers("rain"), calls(3)).all_messages())
    assert "You called forecast 3 times" in said
    answers = Answers("rain")
    with pytest.raises(StuckLoop, match=r"called forecast 5 times .* same result.*may_repeat") as raised:
        play(answers, calls(9))
    assert (raised.value.tool, raised.value.times, answers.count) == ("forecast", 5, 5)


def test_several_calls_of_one_response_count_each() -> None:
    with pytest.raises(StuckLoop):
        play(Answers("rain"), [calls(5)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("answers", "args"),
    [
        (["rain", "sun"] * 10, [{"city": "Oslo"}]),  # another result each time
        (["rain"], [{"city": name} for name in "abcdefgh"]),  # other arguments each time
    ],
)
def test_what_differs_is_no_loop(answers: list[str], args: list[dict[str, Any]]) -> None:
    assert told(play(Answers(*answers), calls(8, args)).all_messages()) == ""


def test_a_loop_of_two_calls_is_one_too() -> None:
    args = [{"city": "Oslo"}, {"city": "Rome"}]
    with pytest.raises(StuckLoop):
        play(Answers("rain"), calls(10, args))
    play(Answers("rain"), calls(10, args), window=4)  # neither is five times among the last four


def test_the_order_and_spelling_of_arguments_make_no_difference() -> None:
    args = [{"city": "Oslo", "days": 2}, {"days": 2, "city": "Oslo"}]
    with pytest.raises(StuckLoop):
        play(Answers("rain"), calls(5, args))


def test_failed_and_denied_calls_count() -> None:
    with pytest.raises(StuckLoop):
        play(Answers(ToolFailed("no such city")), calls(5))
    guard = plugin("guard", check_call=lambda call: Deny("no"))
    with pytest.raises(StuckLoop):
        play(Answers("rain"), calls(5), guard)


def test_the_warning_is_withdrawn_when_the_model_does_something_else() -> None:
    script = [*calls(3), Call("forecast", {"city": "Rome"}, id="r")]
    assert "forecast" not in told(play(Answers("rain"), script).all_messages())


def test_a_tool_that_may_repeat_is_left_alone() -> None:
    answers = Answers("rain")
    assert told(play(answers, calls(9), may_repeat="name:forecast | name:wait").all_messages()) == ""
    assert answers.count == 9


def test_one_agent_serves_sessions_that_do_not_count_together_and_a_new_prompt_counts_anew() -> None:
    with kernel_of(Answers("rain")) as kernel:
        agent = kernel.create_agent(scripted(*calls(4), "done", *calls(4), "done", *calls(4)))
        one, other = create_default_deps(kernel=kernel), create_default_deps(kernel=kernel)
        first = run(agent, deps=one)
        run(agent, deps=other)
        run(agent, "again, please", one, message_history=first.all_messages())


def test_calls_that_wait_for_approval_count_over_the_runs() -> None:
    with kernel_of(Answers("rain")) as kernel:
        agent = kernel.create_agent(scripted(*calls(9)), interrupt_on="name:forecast")
        deps = create_default_deps(kernel=kernel)
        result = run(agent, deps=deps)

        def approve(result: Any) -> Any:
            decided = pending(result).build_results(approve_all=True)
            return run(agent, None, deps, message_history=result.all_messages(), deferred_tool_results=decided)

        for _ in range(4):
            result = approve(result)
        with pytest.raises(StuckLoop):
            approve(result)


def test_a_subagent_in_a_loop_is_a_failed_call_of_its_caller() -> None:
    answers = Answers("rain")
    with kernel_of(answers, deep_subagents) as kernel:
        # One script: the caller delegates, the subagent repeats itself, then the caller goes on.
        delegate = Call("task", {"description": "look at the weather"}, id="t1")
        agent = kernel.create_agent(scripted(delegate, *calls(5), "I give up."))
        result = run(agent, deps=create_default_deps(kernel=kernel))
    assert answers.count == 5
    assert result.output == "I give up."
    (part,) = returns(result.all_messages())
    assert part.outcome != "success"
    assert "the run is stuck" in str(part.content)


def test_it_costs_nothing_until_it_speaks() -> None:
    with kernel_of(Answers("rain")) as kernel:
        assert kernel.explain(kernel.create_agent(scripted())).by_plugin().get("guards", 0) == 0


def test_a_budget_is_reported_once_when_four_fifths_are_used(caplog: pytest.LogCaptureFixture) -> None:
    args = [{"city": name} for name in "abcdefghij"]
    with kernel_of(Answers("rain")) as kernel, caplog.at_level(logging.WARNING, "deep.guards"):
        agent = kernel.create_agent(scripted(*calls(8, args)))
        limits = UsageLimits(request_limit=10)
        before = run(kernel.create_agent(scripted(*calls(7, args))), usage_limits=limits)
        result = run(agent, deps=create_default_deps(kernel=kernel), usage_limits=limits)
    assert told(before.all_messages()) == ""
    assert "80 % of this run's model requests are used (10 at most)" in told(result.all_messages())
    assert [record.levelname for record in caplog.records if record.name == "deep.guards"] == ["WARNING"]


def test_a_project_file_can_only_tighten() -> None:
    options = {"warn_after": 2, "stop_after": 100, "window": 2, "may_repeat": "name:forecast", "deny_commands": ["ls"]}
    from deep_core.plugin_api import Config, ConfigLayer, validate_options

    project = ConfigLayer("deep.toml", {"plugins": {"guards": {"options": options}}}, trusted=False)
    mine = ConfigLayer("user", {"plugins": {"guards": {"options": {"deny_commands": ["git push"]}}}})
    with pytest.warns(UserWarning, match="ignored"):
        held, _ = validate_options("guards", GuardsOptions, Config((project, mine)).plugin("guards"))
    assert (held.warn_after, held.stop_after, held.window, held.may_repeat) == (2, 5, 20, None)
    assert held.deny_commands == ["git push"]
