"""The five rules."""

from deep_trials.checking import Trial, call

CASES = [
    (["Hello, World!"], "hello-world"),
    (["  --A_b--  "], "a-b"),
    (["Été 2026"], "t-2026"),
    (["???"], "page"),
    ([""], "page"),
    (["A very long title of a page"], "a-very-long-title-of"),
    (["A very long title for a page"], "a-very-long-title"),
    (["Ten chars abcdefghijklmn"], "ten-chars-abcdefghij"),
    (["Ten charss abcdefghijklmn"], "ten-charss"),
    (["x" * 30], "x" * 20),
    (["abc " + "y" * 30], "abc-" + "y" * 16),
    (["twelve letter words"], "twelve-letter-words"),
    (["Hello", ["hello"]], "hello-2"),
    (["Hello", ["hello", "hello-2", "hello-4"]], "hello-3"),
    (["?", ["page"]], "page-2"),
    (["x" * 30, ["x" * 20]], "x" * 20 + "-2"),
]


def check(trial: Trial) -> bool:
    return all(call(trial.workspace, "slugs:slug", *arguments) == want for arguments, want in CASES)
