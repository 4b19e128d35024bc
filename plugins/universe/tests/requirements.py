"""What the tool universe must do: each requirement, with the tests that its identifier names.

    python plugins/universe/tests/requirements.py    print every requirement with its tests

The tests of requirement U1 begin with `test_U1_`, those of defect 1 with `test_defect_1_`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["DEFECTS", "REQUIREMENTS", "identifiers", "shown_by"]

TESTS = Path(__file__).parent
REQUIREMENTS: Mapping[str, str] = {
    # The registry
    "U1": "a text key is an expression whose bare words are tags; the result is a `ToolSet`",
    "U2": "a text key is never a tool's name",
    "U3": "`get(name)` returns a tool or `None`",
    "U4": "an expression as key gives a `ToolSet` too",
    "U5": "no match is an empty set that renders",
    "U6": "another type of key is a `TypeError`",
    "U7": "a second tool of one name is refused, and the first stays",
    "U8": "a name fits every wire format, or is refused at registration",
    "U9": "tools stand in the order of registration, or sorted by name; renders are identical",
    "U10": "a `ToolSet` is reusable, and a snapshot",
    "U11": "a text is the whole expression language; a bad one says where",
    "U12": "a plain tag is a tag whatever it contains",
    "U13": "universes are ordinary objects",
    "U14": "an unknown name cannot be unregistered",
    # Expressions
    "E1": "`tool_filter` takes an expression and nothing else",
    "E2": "`ToolName` selects by the whole name",
    "E3": "`Tag` is membership, and case-sensitive",
    "E4": "`Prefix` is the beginning of the name",
    "E5": "`&`, `|` and `~` have their truth tables",
    "E6": "expressions are frozen values, equal by structure",
    "E7": "text form and parser are inverse; precedence; nesting is limited to 50",
    "E8": "`simplify` keeps the meaning: no duplicate, no nesting, no `~~`",
    "E9": "`diagnose` says for each part whether and why it selects a tool",
    "E10": "an expression is a tool selector of Pydantic AI",
    "E11": "an expression is stored as its text",
    "E12": "`TagSet` is any of some tags, `TagNotSet` none of them",
    # Rendering and negotiation
    "P1": "a model's name renders with the driver of the highest score",
    "P2": "a driver's name skips negotiation",
    "P3": "a driver's name comes before a model's",
    "P4": "a driver class alone adds a family of models",
    "P5": "a score is an int from 0 to 100; another breaks the contract",
    "P6": "if all scores are 0, the error lists them",
    "P7": "ties go to the priority, then to the first",
    "P8": "a model's profile plays no part in execution",
    "P9": "the profile is Pydantic AI's, also without a provider's SDK",
    "P10": "`provider:model` renders as the model does",
    "P11": "`to_markdown` is documentation for people",
    # Drivers
    "D1": "a driver has all six methods",
    "D2": "each dialect has recorded replies and a golden render",
    "D3": "recognizing a response returns 0 to 100 and never raises",
    "D4": "each recorded response is won by its own driver; others only fall back",
    "D5": "what `encode_calls` writes, `parse` reads",
    "D6": "one malformed call does not lose the others",
    "D7": "XML is escaped, and parsed without entities",
    "D8": "nothing quoted, thought or cut off is a call",
    "D9": "dicts, SDK objects and a `ModelResponse` give the same calls",
    "D10": "Gemini gets function declarations in Google's schema",
    # Dispatch
    "X1": "the driver with the highest score parses",
    "X2": "an unknown response is an error result",
    "X3": "a recognized reply without calls is `[]`",
    "X4": "a driver that does not fit, or does not exist, is an error result",
    "X5": "a denied call is not executed; the others are",
    "X6": "if all calls are denied, nothing runs",
    "X7": "an unknown tool has one code, with a filter and without",
    "X8": "calls run at once, and results keep their order",
    "X9": "four calls take less than 70 % of the turns of four in sequence",
    "X10": "each call has its own copy of the context",
    "X11": "copying never fails; handles are shared",
    "X12": "order is by position, never by id",
    "X13": "exactly one result for each call, with its id",
    "X14": "parsed, filtered, injected, wrapped, executed",
    "X15": "the model's arguments are validated first; injected parameters are never shown",
    "X16": "a missing key of the context is an error result",
    "X17": "functions that are not async run in a thread",
    "X18": "cancellation cancels all calls and is never a result",
    "X19": "`max_parallel` bounds one reply",
    "X20": "the set of error codes is closed",
    # Middleware
    "M1": "a uid is derived from the class or function",
    "M2": "a uid is equal in every process",
    "M3": "of one uid the later runs, in the place of the earlier",
    "M4": "an explicit uid wins; different ones coexist",
    "M5": "a lambda or closure needs a uid",
    "M6": "global, then scoped, then the tool's own",
    "M7": "`next` never runs twice for a layer that is not critical",
    "M8": "a scope is an expression",
    "M9": "a middleware may answer without `next`",
    # Binding objects
    "B1": "`exclude` leaves methods out",
    "B2": "`middlewares` reach every tool",
    "B3": "an unknown name in `exclude` is a warning",
    "B4": "`prefix` and `tags` apply; private methods are skipped",
    "B5": "an instance binds; a class can be decorated",
    "B6": "no property is evaluated",
    # The whole
    "C1": "the package needs deep-agent-core and its expressions alone",
    "C2": "calls share no state",
    "C3": "one language of filters everywhere",
}
DEFECTS: Mapping[int, str] = {
    1: "A tool ran twice under a middleware that is not critical.",
    2: "Results with empty ids came in another order.",
    3: "A context with a lock made dispatch raise.",
    4: "A plain text reply was an error.",
    5: "A response that nobody knows was parsed as OpenAI's.",
    6: "An unknown driver name raised.",
    7: "One of two closures was dropped silently.",
    8: "`o4-mini`, `qwen3-32b`, `openai:gpt-5.2` and other models rendered as Markdown.",
    9: "The Gemini driver won responses of OpenAI and Anthropic.",
    10: "Gemini got the shape of OpenAI.",
    11: "`<tool_call>{json}</tool_call>` parsed to an empty name.",
    12: "XML was not escaped.",
    13: "One bad call lost all of them.",
    14: "A tag such as `v1.2` was no expression.",
    15: "There was one universe in a process.",
}
"""What was wrong, as measured, in the project that this design follows."""


def shown_by(prefix: str) -> list[str]:
    """The tests in this folder whose names begin so, as `file::name`."""
    return [f"{file}::{name}" for file, name in _tests() if name.startswith(f"test_{prefix}_")]


def identifiers() -> set[str]:
    """The identifiers that the names of tests begin with."""
    return {match[1] for _, name in _tests() if (match := re.match(r"test_([UEPDXMBC]\d+|defect_\d+)_", name))}


def _tests() -> list[tuple[str, str]]:
    trees = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(TESTS.glob("test_*.py"))}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(file, node.name) for file, tree in trees.items() for node in tree.body if isinstance(node, functions)]


def main() -> None:
    """Print them."""
    for name, text in [*REQUIREMENTS.items(), *((f"defect_{number}", text) for number, text in DEFECTS.items())]:
        print(f"{name:9} {text}", *shown_by(name), sep="\n          ")


if __name__ == "__main__":
    main()
