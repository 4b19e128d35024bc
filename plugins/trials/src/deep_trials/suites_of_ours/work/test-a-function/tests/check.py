"""The tests pass on the function, and fail on each of six broken ones."""

import shutil

from deep_trials.checking import Trial, run

BROKEN = [
    "year % 4 == 0",
    "year % 4 == 0 and year % 100 != 0",
    "year % 400 == 0",
    "year % 4 == 0 and (year % 100 != 0 or year % 200 == 0)",
    "True",
    "False",
]
HEAD = "def is_leap(year):\n    if year < 1583:\n        raise ValueError(year)\n    return "
GOOD = "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)"
NEVER_RAISES = f"def is_leap(year):\n    return {GOOD}\n"


def passes(trial: Trial, code: str) -> bool:
    (trial.workspace / "leap.py").write_text(code)
    shutil.rmtree(trial.workspace / "__pycache__", ignore_errors=True)
    done = run(trial.workspace, "python", "-m", "unittest", "test_leap")
    return done.returncode == 0 and " 0 tests" not in done.stderr


def check(trial: Trial) -> dict[str, bool]:
    if not (trial.workspace / "test_leap.py").is_file():
        return {"written": False}
    return {
        "pass": passes(trial, f"{HEAD}{GOOD}\n"),
        "notice": not any(passes(trial, f"{HEAD}{code}\n") for code in BROKEN),
        "notice_the_error": not passes(trial, NEVER_RAISES),
    }
