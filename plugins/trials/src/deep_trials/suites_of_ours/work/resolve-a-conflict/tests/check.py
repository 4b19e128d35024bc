"""Both changes, together."""

from deep_trials.checking import Broken, Trial, call, read

CASES = [((100, "de"), 119), ((103, "de"), 123), ((50, "de"), 60), ((50, "de", True), 55), ((150, "de", True), 164), ((17, "ch", True), 18), ((13, "ch", True), 14), ((200, "at"), 240), ((5, "at", True), 6)]


def check(trial: Trial) -> dict[str, bool]:
    text = read(trial.workspace, "prices.py")
    try:
        right = all(call(trial.workspace, "prices:gross", *arguments) == want for arguments, want in CASES)
    except Broken:
        right = False
    return {"right": right, "clean": bool(text) and not any(mark in text for mark in ("<<<<<<<", "=======", ">>>>>>>"))}
