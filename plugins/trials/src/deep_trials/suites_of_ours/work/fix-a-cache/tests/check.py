"""Sequences of calls, played in a process that does not know what each returns."""

from deep_trials.checking import Trial, call

DRIVER = """
from cache import Cache


def play(size, seconds, steps):
    cache, said = Cache(size, seconds), []
    for name, *arguments in steps:
        said.append(len(cache) if name == "len" else getattr(cache, name)(*arguments))
    return said
"""
PLAYS = [
    (2, 10, [["put", "a", 1, 0], ["put", "b", 2, 1], ["get", "a", 2], ["put", "c", 3, 3], ["get", "b", 4], ["get", "a", 4], ["get", "c", 4]],
     [None, None, 1, None, None, 1, 3]),
    (2, 10, [["put", "a", 1, 0], ["put", "b", 2, 0], ["put", "a", 3, 1], ["len"], ["get", "b", 1], ["get", "a", 1]], [None, None, None, 2, 2, 3]),
    (2, 10, [["put", "a", 1, 0], ["put", "b", 2, 5], ["get", "a", 9], ["put", "c", 3, 10], ["get", "b", 10], ["get", "a", 10]],
     [None, None, 1, None, 2, None]),
    (3, 5, [["put", "a", 1, 0], ["get", "a", 4], ["get", "a", 5], ["get", "a", 4.5]], [None, 1, None, None]),
    (1, 5, [["put", "a", 1, 0], ["put", "a", 2, 4], ["get", "a", 8], ["get", "a", 9], ["len"]], [None, None, 2, None, 0]),
    (2, 9, [["put", "a", None, 0], ["put", "b", 2, 0], ["get", "a", 1], ["put", "c", 3, 1], ["get", "b", 1], ["len"]], [None, None, None, None, None, 2]),
]


def check(trial: Trial) -> bool:
    (trial.workspace / "judge_driver.py").write_text(DRIVER)
    return all(call(trial.workspace, "judge_driver:play", size, seconds, steps) == want for size, seconds, steps, want in PLAYS)
