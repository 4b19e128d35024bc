"""The statistics agree with scipy on random tables, find what was planted, and claim nothing of equals."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from deep_trials.comparing import compare, compare_runs, summarize
from deep_trials.numbers import (
    effective_size,
    interval_of_difference,
    mcnemar,
    needed,
    pass_all,
    pass_any,
    wilson,
)

from plugins.trials.tests.written import row

scipy_stats = pytest.importorskip("scipy.stats")
TABLES = 1_000


@pytest.mark.slow
def test_wilson_is_that_of_scipy() -> None:
    draw = random.Random(1)
    for _ in range(TABLES):
        n = draw.randint(1, 500)
        passed = draw.choice([0, n, draw.randint(0, n)])
        theirs = scipy_stats.binomtest(passed, n).proportion_ci(0.95, method="wilson")
        assert wilson(passed, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12), (passed, n)


@pytest.mark.slow
def test_mcnemar_is_the_exact_binomial_test_of_scipy() -> None:
    draw = random.Random(2)
    for _ in range(TABLES):
        first, second = draw.randint(0, 60), draw.randint(0, 60)
        theirs = scipy_stats.binomtest(first, first + second).pvalue if first + second else 1.0
        assert mcnemar(first, second) == pytest.approx(theirs, abs=1e-12), (first, second)


@pytest.mark.slow
def test_the_interval_of_a_difference_is_near_that_of_scipy() -> None:
    draw = random.Random(3)
    for _ in range(10):
        differences = [draw.choice([-1.0, 0.0, 0.0, 1.0]) for _ in range(80)]
        theirs = scipy_stats.bootstrap(
            (differences,), lambda values, axis: values.mean(axis=axis), n_resamples=4_000, method="percentile", rng=1
        ).confidence_interval
        assert interval_of_difference(differences) == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_the_interval_of_a_difference_is_the_same_each_time() -> None:
    assert interval_of_difference([1.0, 0.0, -1.0, 0.0]) == interval_of_difference([1.0, 0.0, -1.0, 0.0])
    assert interval_of_difference([]) == (0.0, 0.0)


@pytest.mark.parametrize(("n", "passed", "k"), [(5, 3, 2), (6, 6, 3), (6, 0, 3), (4, 1, 4), (7, 5, 1)])
def test_pass_all_and_pass_any_count_every_choice(n: int, passed: int, k: int) -> None:
    drawn = [*combinations([True] * passed + [False] * (n - passed), k)]
    assert pass_all(passed, n, k) == pytest.approx(sum(map(all, drawn)) / len(drawn))
    assert pass_any(passed, n, k) == pytest.approx(sum(map(any, drawn)) / len(drawn))


def test_more_draws_than_trials_are_no_number() -> None:
    assert math.isnan(pass_all(2, 2, 3))
    assert math.isnan(pass_any(2, 2, 0))


def test_repeated_trials_of_one_task_are_worth_less_than_new_tasks() -> None:
    alike = {str(task): [task % 2 == 0] * 10 for task in range(20)}
    mixed = {str(task): [n % 2 == 0 for n in range(10)] for task in range(20)}
    assert effective_size(alike) == pytest.approx(20, rel=0.1)
    assert effective_size(mixed) == 20  # no variance between tasks is seen: nothing more is claimed
    draw = random.Random(4)
    free = {str(task): [draw.random() < 0.5 for _ in range(10)] for task in range(50)}
    assert 250 < effective_size(free) <= 500
    assert effective_size({"a": [True], "b": [False]}) == 2


@pytest.mark.slow
def test_clustered_intervals_hold_the_true_rate() -> None:
    """Tasks of very different difficulty, each tried five times: an interval of 500 free trials would be too narrow."""
    draw = random.Random(5)
    held = naive = 0
    for _ in range(200):
        rates = [draw.choice([0.05, 0.95]) for _ in range(100)]
        tasks = {str(number): [draw.random() < rate for _ in range(5)] for number, rate in enumerate(rates)}
        passed = sum(map(sum, tasks.values()))
        size = effective_size(tasks)
        low, high = wilson(passed / 500 * size, size)
        held += low <= 0.5 <= high
        low, high = wilson(passed, 500)
        naive += low <= 0.5 <= high
    assert held >= 180
    assert naive < held


def rows_of(name: str, solved: list[bool]) -> list:
    return [row(f"t{number}", passed=passed, agent=name) for number, passed in enumerate(solved)]


@pytest.mark.slow
def test_a_planted_difference_of_20_points_at_100_tasks_is_found() -> None:
    draw = random.Random(6)
    found = 0
    for _ in range(100):
        first = [draw.random() < 0.6 for _ in range(100)]
        second = [
            was or draw.random() < 0.5 for was in first
        ]  # 80 %: it solves what the first does, and half of the rest
        comparison = compare(rows_of("a", first), rows_of("b", second))
        found += comparison.is_shown and comparison.difference > 0
    assert found == 100


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_of_equal_agents_at_most_5_in_100_runs_claim_a_difference(rate: float) -> None:
    draw = random.Random(7)
    claims = 0
    for _ in range(400):
        one, two = ([draw.random() < rate for _ in range(100)] for _ in range(2))
        claims += (
            mcnemar(
                sum(a and not b for a, b in zip(one, two, strict=True)),
                sum(b and not a for a, b in zip(one, two, strict=True)),
            )
            < 0.05
        )
    assert claims <= 20


def test_equal_agents_get_a_sentence_with_the_number_of_tasks() -> None:
    same = rows_of("a", [True, False] * 10)
    comparison = compare(same, rows_of("b", [True, False] * 10))
    assert not comparison.is_shown
    assert comparison.sentence.startswith("no difference shown (50% and 50% of 20 tasks, p = 1)")
    assert comparison.needed is not None
    assert f"n = {comparison.needed:,} would be needed" in comparison.sentence


def test_the_number_of_tasks_that_is_named_shows_the_difference() -> None:
    """With so many tasks, the test finds the difference in about 80 of 100 runs."""
    n = needed(0.1, 0.3)
    draw = random.Random(8)
    found = 0
    for _ in range(300):
        kinds = draw.choices([1, -1, 0], [0.2, 0.1, 0.7], k=n)
        found += mcnemar(kinds.count(-1), kinds.count(1)) < 0.05
    assert 210 <= found <= 270
    with pytest.raises(ValueError, match="difference of 0"):
        needed(0, 0.5)


def test_failures_of_the_provider_and_the_harness_do_not_count() -> None:
    rows = [
        row("a"),
        row("b", passed=False),
        row("c", passed=False, end="provider"),
        row("d", passed=False, end="harness"),
    ]
    summary = summarize("x", rows)
    assert (summary.solved, summary.trials, summary.tasks) == (1, 2, 4)
    assert summary.ends == {"solved": 1, "unsolved": 1, "provider": 1, "harness": 1}


def test_tasks_are_paired_and_costs_are_of_those_that_both_solved() -> None:
    first = [row("a", tokens_in=100, calls=2), row("b", tokens_in=900, calls=9), row("c", passed=False)]
    second = [row("a", tokens_in=50, calls=3), row("b", passed=False, tokens_in=1), row("c", passed=False)]
    comparison = compare(first, second)
    assert (comparison.only_first, comparison.only_second, comparison.tasks) == (1, 0, 3)
    assert {each.name: each.value for each in comparison.ratios} == {"calls": 1.5, "tokens": 0.5}
    assert comparison.worse_by(0.05)
    assert not comparison.worse_by(0.34)
    with pytest.raises(ValueError, match="no task in common"):
        compare(first, [row("z")])


def test_runs_of_several_are_compared_each_with_itself() -> None:
    strong, weak = [row("a"), row("b")], [row("a", agent="weak", passed=False), row("b", agent="weak")]
    better = [row("a", agent="weak"), row("b", agent="weak")]
    assert [each.difference for each in compare_runs([*strong, *weak], [*better, *strong])] == [0, 0.5]
    assert [each.difference for each in compare_runs(strong, weak)] == [-0.5]
    other = [row("a", agent="other")]
    assert [each.first for each in compare_runs([*strong, *weak], other)] == [strong[0].who, weak[0].who]
    with pytest.raises(ValueError, match="no contender is in both"):
        compare_runs([*strong, *weak], [*other, row("a", agent="another")])
