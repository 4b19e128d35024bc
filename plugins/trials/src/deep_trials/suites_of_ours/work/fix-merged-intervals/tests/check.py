"""Days that the agent never sees; the driver notices a list that changed."""

from deep_trials.checking import Trial, call

DRIVER = """
from calendar_gaps import gaps


def day(start, end, meetings):
    before = [list(each) for each in meetings]
    found = [list(each) for each in gaps(start, end, meetings)]
    return [found, [list(each) for each in meetings] == before]
"""
DAYS = [
    ((0, 100, [[10, 50], [20, 30]]), [[0, 10], [50, 100]]),
    ((0, 100, [[20, 30], [10, 20]]), [[0, 10], [30, 100]]),
    ((0, 100, [[-10, 20], [90, 130]]), [[20, 90]]),
    ((0, 100, [[-20, -10], [110, 120]]), [[0, 100]]),
    ((0, 100, [[-20, 200]]), []),
    ((0, 100, [[40, 40]]), [[0, 100]]),
    ((0, 100, [[0, 10], [5, 60], [60, 100]]), []),
    ((0, 100, []), [[0, 100]]),
    ((0, 100, [[50, 60], [150, 160], [10, 20]]), [[0, 10], [20, 50], [60, 100]]),
    ((0, 0, []), []),
]


def check(trial: Trial) -> dict[str, bool]:
    (trial.workspace / "judge_driver.py").write_text(DRIVER)
    said = [call(trial.workspace, "judge_driver:day", *arguments) for arguments, _ in DAYS]
    return {"right": [each[0] for each in said] == [want for _, want in DAYS], "kept": all(each[1] for each in said)}
