"""Values and errors; none of the three short cuts."""

import ast

from deep_trials.checking import Broken, Trial, call, read

VALUES = [
    ("1+2*3", 7), ("(1+2)*3", 9), ("2^3^2", 512), ("-2^2", -4), ("2^-1", 0.5), ("8/2/2", 2.0), ("7%4*2", 6), ("10-3-2", 5), (" .5 + 1.5 ", 2.0),
    ("--3", 3), ("-(2)^2", -4), ("max(1, 2*3, 4)", 6), ("min(x, y_1)", 2), ("abs(-x)*2", 10), ("2*-3", -6), ("-7%3", 2), ("max(min(1,2),0)^2", 1),
]
ERRORS = [
    ("1+", "unexpected end at 2"), ("", "unexpected end at 0"), ("1 2", "unexpected 2 at 2"), ("(1", "unexpected end at 2"), ("1)", "unexpected ) at 1"),
    ("2 $ 3", "unexpected $ at 2"), ("1+z", "unknown name z at 2"), ("sin(1)", "unknown function sin at 0"), ("4 / (x-5)", "division by zero at 2"),
    ("5 % 0", "division by zero at 2"), ("max()", "unexpected ) at 4"), ("1.2.3", "unexpected . at 3"), ("x(1)", "unknown function x at 0"),
    ("1/0 + q", "unknown name q at 6"),
]


def check(trial: Trial) -> dict[str, bool]:
    names = {"x": 5, "y_1": 2}

    def refused(text: str, words: str) -> bool:
        try:
            call(trial.workspace, "calculator:evaluate", text, names)
        except Broken as error:
            return str(error).endswith(f"ValueError: {words}")
        return False

    def value(text: str, want: float) -> bool:
        said = call(trial.workspace, "calculator:evaluate", text, names)
        return said == want and type(said) is type(want)

    try:
        nodes = [*ast.walk(ast.parse(read(trial.workspace, "calculator.py")))]
    except SyntaxError:
        nodes = []
    used = {node.id for node in nodes if isinstance(node, ast.Name)} | {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    return {
        "values": all(value(*case) for case in VALUES),
        "errors": all(refused(*case) for case in ERRORS),
        "own": bool(nodes) and not used & {"eval", "exec", "compile", "ast"},
    }
