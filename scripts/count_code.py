"""Count the kernel's lines without docstrings, comments and blank lines: `python scripts/count_code.py deep_core`."""

from __future__ import annotations

import ast
import sys
import tokenize
from pathlib import Path


def code_lines(path: Path) -> int:
    """Lines of a file that hold code."""
    source = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    lines: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in skipped and token.type != tokenize.ENDMARKER:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


if __name__ == "__main__":
    counts = {path: code_lines(path) for path in sorted(Path(sys.argv[1]).rglob("*.py"))}
    for path, count in counts.items():
        print(f"{count:6} {path}")
    print(f"{sum(counts.values()):6} in all")
