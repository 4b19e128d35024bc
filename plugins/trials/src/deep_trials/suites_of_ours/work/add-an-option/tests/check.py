"""The program, run with texts that the agent never sees."""

import json

from deep_trials.checking import Trial, run

TEXT = "one three\nfive  ünïts\n\na bb ccc"


def check(trial: Trial) -> dict[str, bool]:
    (trial.workspace / "judge.txt").write_text(TEXT, encoding="utf-8")

    def said(*words: str) -> tuple[int, str]:
        done = run(trial.workspace, "python", "count.py", *words)
        return done.returncode, done.stdout

    def read(*words: str) -> object:
        code, text = said(*words)
        try:
            return (code, json.loads(text))
        except ValueError:
            return None

    bad = [["gone.txt"], ["judge.txt", "--wide"], ["judge.txt", "--min", "0"], ["judge.txt", "--min", "x"], ["--min", "1.5", "judge.txt"], ["judge.txt", "--min"]]
    done = [run(trial.workspace, "python", "count.py", *words) for words in bad]
    return {
        "as_before": said("judge.txt") == (0, "lines 4\nwords 7\n"),
        "min": said("--min", "3", "judge.txt") == (0, "lines 4\nwords 5\n"),
        "json": read("judge.txt", "--json") == (0, {"lines": 4, "words": 7}),
        "both": read("--json", "judge.txt", "--min", "5") == read("--min", "5", "--json", "judge.txt") == (0, {"lines": 4, "words": 2}),
        "refused": all(each.returncode == 2 and not each.stdout and each.stderr for each in done),
    }
