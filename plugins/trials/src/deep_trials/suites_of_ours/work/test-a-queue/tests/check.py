"""The tests pass on the class, and notice each broken one."""

import shutil

from deep_trials.checking import Trial, read, run

CHANGES = [
    ("[at - 1][0] < priority", "[at - 1][0] <= priority"),
    ("[at - 1][0] < priority", "[at - 1][0] > priority"),
    ("while at and", "while False and"),
    (">= self.most", "> self.most"),
    (">= self.most", ">= self.most - 1"),
    ("            raise Full(value)", "            self._values.pop()"),
    ("            raise Full(value)", "            return"),
    ("return self._values.pop(0)[1]", "return self._values.pop(0)[1] if self._values else None"),
    ("return self._values.pop(0)[1]", "return self._values[0][1]"),
    ("return len(self._values)", "return self.most"),
]
ALSO = ("        if len(self._values) >= self.most:\n            raise Full(value)\n", "")
TAIL = ("        self._values.insert(at, (priority, value))\n", "        self._values.insert(at, (priority, value))\n        if len(self._values) > self.most:\n            raise Full(value)\n")


def passes(trial: Trial, code: str) -> bool:
    (trial.workspace / "queues.py").write_text(code)
    shutil.rmtree(trial.workspace / "__pycache__", ignore_errors=True)
    done = run(trial.workspace, "python", "-m", "unittest", "test_queues")
    return done.returncode == 0 and " 0 tests" not in done.stderr


def check(trial: Trial) -> dict[str, bool]:
    good = (trial.tests / "queues.txt").read_text()
    if not read(trial.workspace, "test_queues.py"):
        return {"written": False}
    changed = [good.replace(*change) for change in CHANGES]
    changed.append(good.replace(*ALSO).replace(*TAIL))  # raises Full, but keeps the value
    assert good not in changed
    return {"pass": passes(trial, good), "notice": not any(passes(trial, code) for code in changed)}
