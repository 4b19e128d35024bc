"""What the benchmarks conclude from their numbers: ratios to one's own floor, and what is worse than another commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.against import Change, changes
from benchmarks.measure import Bench, Contender, Figure, Goal, Spread


def test_each_contender_is_compared_with_the_floor_of_its_own_environment():
    peer = [Contender("their floor", "floor", floor="their floor"), Contender("peer", "peer", floor="their floor")]
    bench = Bench([Contender("floor", "floor"), *peer, Contender("ours", "ours")])
    figure = bench.figure("a turn", "ms", [{"floor": 10, "their floor": 20, "peer": 30, "ours": 11}])
    assert {who: ratio.median for who, ratio in figure.ratios.items()} == {"peer": 1.5, "ours": 1.1}


def test_a_figure_can_compare_all_with_another_floor():
    bench = Bench([Contender("floor", "floor"), Contender("ours", "ours")])
    rounds = [{"async": 10, "ours": 12}]
    assert bench.figure("a turn", "ms", rounds, floor="async").ratios["ours"].median == 1.2


@pytest.mark.parametrize(("rounds", "outside"), [(1, 0), (5, 0), (6, 0), (9, 1), (11, 1), (25, 7)])
def test_the_interval_leaves_out_as_many_values_as_95_percent_allow(rounds: int, outside: int):
    assert Spread.of(range(rounds)).between == (outside, rounds - 1 - outside)


def test_another_commit_may_be_older_than_a_contender(tmp_path: Path):
    now = Contender("ours", "ours")
    assert [now.has(each) for each in ("ours", "ours:WITHOUT_RIPGREP")] == [True, True]
    (tmp_path / "benchmarks" / "contenders").mkdir(parents=True)
    (tmp_path / "benchmarks" / "contenders" / "ours.py").write_text("import x\nCONTENDER = x\n")
    before = Contender("before", "ours", repository=tmp_path)
    assert [before.has(each) for each in ("ours", "ours:WITHOUT_RIPGREP", "prompted")] == [True, False, False]


def change(unit: str, rounds: list[tuple[float, float]], goal: Goal | None = None) -> Change:
    """The change of a figure whose rounds have these values before and now."""
    bench = Bench([Contender("before", "ours", floor="before"), Contender("ours", "ours", floor="before")])
    figure: Figure = bench.figure("row", unit, [{"before": before, "ours": now} for before, now in rounds], goal)
    (found,) = changes([figure], "before")
    return found


MORE_IS_BETTER = Goal(1, least=True)


@pytest.mark.parametrize(
    ("verdict", "unit", "rounds", "goal"),
    [
        ("", "ms", [(100, 102)] * 5, None),
        ("**worse**", "ms", [(100, 104)] * 5, None),
        ("better", "ms", [(100, 90)] * 5, None),
        ("within its spread", "ms", [(100, 95), *[(100, 110)] * 4], None),
        ("too few rounds", "ms", [(100, 200)] * 4, None),
        ("**worse**", "chars", [(100, 104)], None),
        ("**worse**", "turns/s", [(100, 90)] * 5, MORE_IS_BETTER),
        ("better", "turns/s", [(100, 110)] * 5, MORE_IS_BETTER),
        ("", "MB more", [(0, 0)] * 5, None),
        ("**worse**", "MB more", [(0, 4)] * 5, None),
    ],
)
def test_a_row_is_worse_above_3_percent_unless_its_spread_explains_it(
    verdict: str, unit: str, rounds: list[tuple[float, float]], goal: Goal | None
):
    assert change(unit, rounds, goal).verdict == verdict
