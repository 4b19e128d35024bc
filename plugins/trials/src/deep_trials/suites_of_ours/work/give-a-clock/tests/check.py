"""The class with a clock of ours, and its tests against broken classes."""

import shutil

from deep_trials.checking import Broken, Trial, call, run

DRIVER = """
import inspect
import time

from sessions import Session


class Clock:
    def __init__(self):
        self.at = 0.0

    def __call__(self):
        return self.at


def play():
    clock, said = Clock(), []
    session = Session("ann", 10, now=clock)
    for at in (0, 9.5, 10, 9):
        clock.at = at
        said.append(session.ended())
    clock.at = 9
    session.touch()
    for at in (18.5, 19):
        clock.at = at
        said.append(session.ended())
    session.touch()
    said.append(session.ended())
    kind = inspect.signature(Session).parameters["now"].kind
    return [said, kind.name, Session("bo").idle, Session("bo").ended(), abs(Session("bo").used - time.time()) < 60]
"""
RIGHT = [[False, False, True, False, False, True, True], "KEYWORD_ONLY", 600, False, True]
GOOD = """
import time


class Session:
    def __init__(self, user, idle=600, *, now=time.time):
        self.user, self.idle, self._now = user, idle, now
        self.used = now()

    def touch(self):
        if not self.ended():
            self.used = self._now()

    def ended(self):
        return self._now() - self.used >= self.idle
"""
BROKEN = [
    GOOD.replace(">= self.idle", "> self.idle"),
    GOOD.replace(">= self.idle", ">= self.idle - 1"),
    GOOD.replace(">= self.idle", ">= self.idle + 1"),
    GOOD.replace("self.used = self._now()", "pass"),
]


def passes(trial: Trial, code: str) -> bool:
    (trial.workspace / "sessions.py").write_text(code)
    shutil.rmtree(trial.workspace / "__pycache__", ignore_errors=True)
    done = run(trial.workspace, "python", "-m", "unittest", "test_sessions")
    return done.returncode == 0 and " 0 tests" not in done.stderr


def check(trial: Trial) -> dict[str, bool]:
    (trial.workspace / "judge_driver.py").write_text(DRIVER)
    try:
        right = call(trial.workspace, "judge_driver:play") == RIGHT
    except Broken:
        right = False
    if not (trial.workspace / "test_sessions.py").is_file():
        return {"right": right, "tested": False}
    return {"right": right, "tested": passes(trial, GOOD), "notice": not any(passes(trial, code) for code in BROKEN)}
