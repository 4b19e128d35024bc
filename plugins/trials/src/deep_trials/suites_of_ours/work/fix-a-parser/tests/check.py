"""Durations and texts that are none, in a process that does not know what is expected."""

from deep_trials.checking import Broken, Trial, call

GOOD = {"2h": 7200, "90m": 5400, "1h5s": 3605, "1h30m": 5400, "45s": 45, "1h2m3s": 3723, "100m": 6000, "0s": 0}
BAD = ["", "h", "5", "1x", "1m1m", "1m1h", "1s1m", " 1h", "1h ", "-1h", "1.5h", "1h\n"]


def check(trial: Trial) -> dict[str, bool]:
    def refused(text: str) -> bool:
        try:
            call(trial.workspace, "durations:parse", text)
        except Broken as error:
            return "ValueError" in str(error)
        return False

    return {
        "good": all(call(trial.workspace, "durations:parse", text) == want for text, want in GOOD.items()),
        "bad": all(map(refused, BAD)),
    }
