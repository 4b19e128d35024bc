"""The seven rules."""

from deep_trials.checking import Broken, Trial, call

CASES = [
    (([],), ""),
    (([["a"]],), "a\n-"),
    (([["name", "n"], ["ann", 1], ["bo", 20]],), "name   n\n----  --\nann    1\nbo    20"),
    (([["a", "b"], ["x", None], ["y"]],), "a  b\n-  -\nx\ny"),
    (([["a", "b"], [1, True], [2.5, 3]],), "  a  b\n---  ----\n  1  True\n2.5  3"),
    (([["a"], ["x\ny"]],), "a\n---\nx y"),
    (([["first", "second"], ["abcdef", "abcdefgh"]], 12), "first  seco…\n-----  -----\nabcd…  abcd…"),
    (([["a", "b"], ["abcdefgh", "x"]], 8), "a      b\n-----  -\nabcd…  x"),
    (([["a", "b"], ["abcd", "abcd"]], 9), "a     b\n----  ---\nabcd  ab…"),
    (([["number", "x"], [123456, "y"]], 8), "numb…  x\n-----  -\n1234…  y"),
]
BAD = [([["a"], ["x", "y"]],), ([["aaaa", "bbbb"], ["x", "y"]], 7), ([["aaa"]], 2)]


def check(trial: Trial) -> dict[str, bool]:
    def refused(arguments: tuple[object, ...]) -> bool:
        try:
            call(trial.workspace, "tables:render", *arguments)
        except Broken as error:
            return "ValueError" in str(error)
        return False

    return {
        "right": all(call(trial.workspace, "tables:render", *arguments) == want for arguments, want in CASES),
        "refused": all(map(refused, BAD)),
    }
