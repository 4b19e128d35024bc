"""All five, also those that the note calls done."""

from deep_trials.checking import Broken, Trial, call

DRIVER = """
import dataclasses

import inventory
from inventory import Article


def plain(articles):
    return [[each.name, each.count, each.cents] for each in articles]


def frozen():
    try:
        Article("pen", 1, 2).count = 3
    except dataclasses.FrozenInstanceError:
        return True
    return False


def add(given, new):
    before = [Article(*each) for each in given]
    after = inventory.add(before, Article(*new))
    return [plain(after), plain(before) == given, after is not before]


def remove(given, name, count):
    before = [Article(*each) for each in given]
    after = inventory.remove(before, name, count)
    return [plain(after), plain(before) == given, after is not before]


def value(given):
    return inventory.value([Article(*each) for each in given])


def low(given, least):
    return list(inventory.low([Article(*each) for each in given], least))
"""
STOCK = [["pen", 3, 100], ["ink", 5, 250]]


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    (work / "judge_driver.py").write_text(DRIVER)

    def refused(name: str, count: int) -> bool:
        try:
            call(work, "judge_driver:remove", STOCK, name, count)
        except Broken as error:
            return f"ValueError: not enough {name}" in str(error)
        return False

    return {
        "frozen": call(work, "judge_driver:frozen"),
        "add": call(work, "judge_driver:add", STOCK, ["pen", 2, 120]) == [[["pen", 5, 120], ["ink", 5, 250]], True, True]
        and call(work, "judge_driver:add", STOCK, ["cap", 1, 9]) == [[*STOCK, ["cap", 1, 9]], True, True],
        "value": call(work, "judge_driver:value", STOCK) == 1550,
        "remove": call(work, "judge_driver:remove", STOCK, "pen", 3) == [[["ink", 5, 250]], True, True]
        and call(work, "judge_driver:remove", STOCK, "ink", 1) == [[["pen", 3, 100], ["ink", 4, 250]], True, True],
        "refused": refused("pen", 4) and refused("cap", 1),
        "low": call(work, "judge_driver:low", [["pen", 3, 1], ["ink", 5, 1], ["cap", 0, 1]], 5) == ["cap", "pen"],
        "gone": not (work / "HANDOVER.md").exists(),
    }
