"""Parse the answers of the file tools: listings, numbered lines, matches, and the output of a test run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .transcript import Result

__all__ = [
    "Match",
    "TestRun",
    "file_lines",
    "first_error_line",
    "matches",
    "names_in_listing",
    "paths_in_listing",
    "read_test_run",
]

_SIZE = re.compile(r" \((?:\d+ bytes|size unknown)\)$")
_MORE = re.compile(r"^\.\.\. and \d+ more ")
_NUMBERED = re.compile(r"^ *(\d+)\t(.*)$")
_MATCH = re.compile(r"^(.+?):(\d+): (.*)$")
_RAN = re.compile(r"^Ran (\d+) tests? in ", re.M)
_WRONG = re.compile(r"^FAILED \((.+)\)$", re.M)
_COUNT = re.compile(r"(?:failures|errors)=(\d+)")
_NAMED = re.compile(r"^(?:FAIL|ERROR): (\w+)", re.M)


@dataclass(frozen=True)
class Match:
    """One line that `grep` found."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class TestRun:
    """The result of `python3 -m unittest`.

    Attributes:
        ran: number of tests; None if the output is not unittest's.
        wrong: number of failed tests.
        names: the failed tests, in order.
        detail: the first line of the error.
    """

    ran: int | None
    wrong: int = 0
    names: tuple[str, ...] = ()
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether there were tests and all passed."""
        return bool(self.ran) and not self.wrong

    def __str__(self) -> str:
        if self.ran == 0:
            return "unittest finds no tests"
        if self.ran is None:
            return f"the test run has no result ({self.detail or 'no output'})"
        if not self.wrong:
            return f"all {self.ran} tests pass"
        return f"{self.wrong} of {self.ran} tests fail: {', '.join(self.names) or 'unnamed'}"


def names_in_listing(result: Result) -> list[str]:
    """The names listed by `ls`; directories end with `/`."""
    if not result.ok or result.text.endswith(" is empty."):
        return []
    return [_SIZE.sub("", line) for line in result.text.splitlines() if line and not _MORE.match(line)]


def paths_in_listing(result: Result) -> list[str]:
    """The paths listed by `glob`."""
    if not result.ok or result.text.startswith("No files match "):
        return []
    return [line for line in result.text.splitlines() if line and not _MORE.match(line)]


def file_lines(result: Result) -> list[str] | None:
    """The lines shown by `read_file`, without their numbers; None for none."""
    if not result.ok:
        return None
    return [match[2] for line in result.text.split("\n") if (match := _NUMBERED.match(line))]


def matches(result: Result) -> list[Match]:
    """The lines found by `grep` in the mode `content`."""
    if not result.ok or result.text.startswith("No matches for "):
        return []
    lines = (_MATCH.match(line) for line in result.text.splitlines())
    return [Match(match[1], int(match[2]), match[3]) for match in lines if match]


def read_test_run(result: Result) -> TestRun:
    """Parse a test run from the command's output."""
    ran = _RAN.search(result.text)
    if not result.ok or ran is None:
        return TestRun(None, detail=first_error_line(result.text))
    wrong = _WRONG.search(result.text)
    count = sum(map(int, _COUNT.findall(wrong[1]))) if wrong else 0
    detail = next((line for line in result.text.splitlines() if line.startswith("AssertionError")), "")
    return TestRun(int(ran[1]), count, tuple(_NAMED.findall(result.text)), detail)


def first_error_line(text: str) -> str:
    """The most useful line of a failed command: the last one of a traceback, else the first that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _last_error(lines) or (lines[0] if lines else "")


def _last_error(lines: Sequence[str]) -> str:
    errors = [line for line in lines if re.match(r"^\w*(Error|Exception)\b", line)]
    return errors[-1] if errors else ""
