"""Counts comparisons, and calls of the key, not seconds: a busy machine changes nothing."""

from deep_trials.checking import Trial, call

DRIVER = """
from unique import unique

count = {"equal": 0, "key": 0}


class Key:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        count["equal"] += 1
        return self.value == other.value


def work(total, different):
    def key(row):
        count["key"] += 1
        return Key(row[1])

    rows = [[number, number * 7 % different] for number in range(total)]
    count.update(equal=0, key=0)
    kept = unique(rows, key)
    return [[row[0] for row in kept], count["equal"], count["key"]]


def plain(rows):
    return unique(rows, lambda row: row[0])
"""


def check(trial: Trial) -> dict[str, bool]:
    (trial.workspace / "judge_driver.py").write_text(DRIVER)
    kept, equal, keys = call(trial.workspace, "judge_driver:work", 3000, 1009, seconds=30.0)
    rows = [[1, "a"], ["1", "b"], [1.0, "c"], [True, "d"], [None, "e"], [None, "f"], ["", "g"], [0, "h"], [False, "i"]]
    said = call(trial.workspace, "judge_driver:plain", rows)
    return {
        "same": kept == list(range(1009)) and [row[1] for row in said] == list("abegh"),
        "fast": equal <= 9000 and keys <= 9000,
    }
