"""The function, and the four rules of a file that the instruction does not name."""

from deep_trials.checking import Broken, Trial, call, read


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace

    def refused(value: object) -> bool:
        try:
            call(work, "units:celsius", value)
        except Broken as error:
            return "TypeError: not a number" in str(error)
        return False

    return {
        "right": [call(work, "units:celsius", each) for each in (212, 32, 100, -40, 0.5)] == [100.0, 0.0, 37.8, -40.0, -17.5],
        "refused": refused("32") and refused(True) and refused(None),
        "listed": [call(work, "units:__all__.index", name) for name in ("celsius", "kilograms", "meters")] == [0, 1, 2],
        "documented": any(line.startswith("- `celsius(fahrenheit)`: ") for line in read(work, "docs/functions.md").splitlines()),
        "others": call(work, "units:meters", 10) == 3.0,
    }
