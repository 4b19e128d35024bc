"""Statistics of trials, in small functions: no dependency, and each is compared with scipy in the tests."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import NormalDist

__all__ = [
    "effective_size",
    "interval_of_difference",
    "mcnemar",
    "needed",
    "pass_all",
    "pass_any",
    "wilson",
]

LEVEL = 0.95
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
_POWER = NormalDist().inv_cdf(0.8)


def wilson(passed: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Return Wilson's interval of a rate (Wilson 1927); (0, 1) without trials.

    Args:
        passed: how many of `n` passed; need not be whole where `n` is an effective size.
        n: trials.
        level: of confidence.
    """
    if n <= 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + level / 2)
    rate = passed / n
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At the ends the sum is exact, and rounding must not move it.
    return (0.0 if passed <= 0 else max(0.0, middle - half), 1.0 if passed >= n else min(1.0, middle + half))


def effective_size(tasks: Mapping[str, Sequence[bool]]) -> float:
    """Return how many independent trials repeated tasks are worth: trials of one task resemble each other.

    The variance of the mean over tasks (the cluster-robust one) is compared with that of independent trials. The result
    lies between the number of tasks and that of trials; without any variance it is the number of tasks.
    """
    groups = [each for each in tasks.values() if each]
    trials, count = sum(map(len, groups)), len(groups)
    if trials == count or count < 2:
        return float(count)
    rate = sum(map(sum, groups)) / trials
    # Residuals summed by task: tasks may have different numbers of trials.
    spread = sum((sum(each) - rate * len(each)) ** 2 for each in groups)
    clustered = spread / trials**2 * count / (count - 1)
    if clustered <= 0 or rate in (0.0, 1.0):
        return float(count)
    return min(float(trials), max(float(count), rate * (1 - rate) / clustered))


def pass_all(passed: int, n: int, k: int) -> float:
    """Return the chance that k of the n trials, drawn without replacement, all passed: pass^k. nan if k > n."""
    return math.comb(passed, k) / math.comb(n, k) if 0 < k <= n else math.nan


def pass_any(passed: int, n: int, k: int) -> float:
    """Return the chance that at least one of k of the n trials passed: pass@k (Chen 2021). nan if k > n."""
    return 1 - math.comb(n - passed, k) / math.comb(n, k) if 0 < k <= n else math.nan


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the two-sided p-value of McNemar's exact test: tasks that only one of two agents solved.

    Under equal agents each such task is a fair coin, so this is the exact binomial test.
    """
    n = only_first + only_second
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, each) for each in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / 2**n)


def interval_of_difference(
    differences: Sequence[float], level: float = LEVEL, resamples: int = 4_000, seed: int = 1
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of differences paired by task. The seed makes it repeatable.

    Tasks are drawn anew with replacement (Efron 1979). Without differences it is (0, 0).
    """
    if not differences:
        return 0.0, 0.0
    draw = random.Random(seed)  # noqa: S311 - statistics, not secrets
    n = len(differences)
    means = sorted(math.fsum(draw.choices(differences, k=n)) / n for _ in range(resamples))
    return _quantile(means, (1 - level) / 2), _quantile(means, (1 + level) / 2)


def _quantile(ordered: Sequence[float], at: float) -> float:
    place = at * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def needed(difference: float, discordant: float) -> int:
    """Return how many tasks show a difference in 80 of 100 runs, at the level of 95 % (Connor 1987).

    Args:
        difference: of the rates.
        discordant: the share of tasks that only one of the two solves; at least `difference`.
    """
    size = abs(difference)
    share = max(discordant, size)
    if size == 0:
        raise ValueError("no number of tasks shows a difference of 0")
    top = _Z * math.sqrt(share) + _POWER * math.sqrt(max(0.0, share - size * size))
    return math.ceil(top * top / (size * size))
