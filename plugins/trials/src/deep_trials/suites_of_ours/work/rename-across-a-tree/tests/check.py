"""Every part runs, the old name is gone, and what only looks like it is as it was."""

from deep_trials.checking import Trial, call, read

PARTS = ["orders", "bills", "mail", "stock", "audit", "search", "export", "login", "quota", "tasks", "labels", "prices"]
DRIVER = """
import importlib

from core import users


def play(parts):
    return [hasattr(users, "get"), users.find_user(2), users.get_all(), [importlib.import_module(f"parts.{each}").run(1) for each in parts]]
"""


def line(number: int, name: str) -> str:
    return f"{name} ann" + [f" {number}", "", " of 2", " 1"][number % 4]


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    (work / "judge_driver.py").write_text(DRIVER)
    gone, found, everyone, lines = call(work, "judge_driver:play", PARTS)
    words = [read(work, f"parts/{name}.py") for name in PARTS]
    return {
        "renamed": (gone, found, everyone) == (False, "bo", ["ann", "bo"]),
        "parts": lines == [line(number, name) for number, name in enumerate(PARTS)],
        "others": sum("get more with get_all" in each for each in words) == 3 and sum("Its get is its own" in each for each in words) == 3,
    }
