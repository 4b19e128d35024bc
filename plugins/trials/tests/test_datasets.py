"""Datasets of pydantic-evals as suites; with `make test-bfcl`, our verdicts beside those of the package itself."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deep_trials.datasets import load_dataset
from deep_trials.errors import SuiteError
from deep_trials.evaluators import arguments_of, verdicts
from deep_trials.finding import find_suite
from deep_trials.isolation import isolates
from deep_trials.runs import Contender, jobs_of, run_jobs
from deep_trials.validating import validate_suite

from deep_core import Kernel

PYTHON = os.environ.get("DEEP_EVALS", "")
"""The interpreter of an environment with pydantic-evals, whose versions each pin one of Pydantic AI."""
CAPITALS = """
# yaml-language-server: $schema=capitals_schema.json
name: capitals
cases:
- name: France / north
  inputs: What is the capital of France?
  metadata: {difficulty: 1}
  expected_output: Paris
  evaluators:
  - Contains: {value: par, case_sensitive: false}
- inputs: Name two primes below 4, as JSON.
  expected_output: [2, 3]
evaluators:
- EqualsExpected
- MaxDuration: 40
"""


def write(folder: Path, text: str, name: str = "capitals.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_each_case_is_a_task(tmp_path: Path) -> None:
    with Kernel(read_config=False) as kernel:
        suite = find_suite(str(write(tmp_path, CAPITALS)), kernel)
    assert [task.name for task in suite.tasks] == ["France-north", "case-2"]
    first, second = suite.tasks
    assert first.instruction == "What is the capital of France?"
    assert first.file.agent.timeout_sec == second.file.agent.timeout_sec == 40
    assert (first.solution.script, second.solution.script) == (["Paris"], ["[2, 3]"])
    again = load_dataset(write(tmp_path, CAPITALS.replace("Paris", "Lyon")))
    assert [a.digest == b.digest for a, b in zip(suite.tasks, again.tasks, strict=True)] == [False, True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("name: capitals", "- a"), "capitals.yaml: "),
        (("cases:", "case:"), "has no cases: is it a dataset of pydantic-evals?"),
        (("inputs: Name two primes below 4, as JSON.", "inputs: {a: 1}"), r"case 2 \(case-2\): its inputs are no text"),
        (
            ("- EqualsExpected", "- LLMJudge: {rubric: polite}"),
            "the evaluator LLMJudge is not read here, only Equals, ",
        ),
        (("- EqualsExpected", "- IsInstance: {kind: str}"), "IsInstance has no argument 'kind'"),
        (("- EqualsExpected", "- Contains: {}"), "Contains needs value"),
        (("- EqualsExpected", "- EqualsExpected: 3"), "EqualsExpected has no argument ''"),
        (("- MaxDuration: 40", "- MaxDuration: 0"), "MaxDuration takes seconds, a number above 0"),
        (("  expected_output: [2, 3]\n", ""), r"case 2 \(case-2\) has no evaluator that judges the answer"),
    ],
)
def test_what_no_trial_can_be_judged_by_is_refused(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    assert change[0] in CAPITALS
    with pytest.raises(SuiteError, match=words):
        load_dataset(write(tmp_path, CAPITALS.replace(*change)))


@pytest.mark.slow
def test_trials_of_a_dataset_are_judged_and_see_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset lies beside the agent's module, which it sees."""
    monkeypatch.chdir(tmp_path)
    code = (
        "from pathlib import Path\n\nfrom pydantic_ai import Agent\n"
        "from pydantic_ai.messages import ModelResponse, TextPart\n"
        "from pydantic_ai.models.function import FunctionModel\n\n\n"
        "def answer(messages, info):\n"
        "    try:\n        text = (Path(__file__).parent / 'capitals.yaml').read_text()\n"
        "    except OSError:\n        text = ''\n"
        "    return ModelResponse([TextPart('Paris' if 'Paris' in text else 'unread')])\n\n\n"
        "reads = Agent(FunctionModel(answer))\n"
    )
    write(tmp_path, code, "acme_readers.py")
    suite = load_dataset(write(tmp_path, CAPITALS))
    assert asyncio.run(validate_suite(suite, times=1)) == {"France-north": None, "case-2": None}
    jobs = jobs_of(suite, [Contender(model="trials:reference"), Contender("acme_readers.py:reads")], 1)
    rows = asyncio.run(run_jobs(jobs, tmp_path / "run")).rows
    assert [(row.end, row.scores) for row in rows if row.model] == [
        ("solved", {"Contains": True, "EqualsExpected": True}),
        ("solved", {"EqualsExpected": True}),
    ]
    assert next(row.end for row in rows if not row.model) == ("unsolved" if isolates() else "solved")


VALUES: tuple[Any, ...] = (
    "Paris", "paris", "", "5", "[1, 2]", 5, 5.0, True, False, [], [1, 2], [2, 1], ["Paris"], {}, {"a": 1},
    {"a": 1, "b": 2},
)  # fmt: skip
KINDS = ("str", "int", "float", "bool", "list", "dict", "object", "NoneType", "tuple")


def cases(many: int) -> list[tuple[str, Any, list[Any]]]:
    draw = random.Random(42)
    found: list[tuple[str, Any, list[Any]]] = []
    for _ in range(many):
        said, expected = draw.choice(VALUES), draw.choice(VALUES)
        answer = said if isinstance(said, str) else json.dumps(said)
        value = draw.choice(VALUES)
        options = {"case_sensitive": draw.random() < 0.5, "as_strings": draw.random() < 0.3}
        evaluator = draw.choice(
            [
                {"Equals": {"value": value}},
                "EqualsExpected",
                {"Contains": {"value": value, **options}},
                {"IsInstance": draw.choice(KINDS)},
            ]
        )
        found.append((answer, expected, [evaluator]))
    return found


def output_of(answer: str, expected: Any, evaluator: Any) -> object:
    """The output that a typed agent would have returned in place of this text."""
    name, args = _named(evaluator)
    if name == "IsInstance":
        wanted: Any = args if str(args) in ("str", "object") else 0
    else:
        wanted = expected if name == "EqualsExpected" else args["value"]
    if isinstance(wanted, str) or (name == "Contains" and args["as_strings"]):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def _named(evaluator: Any) -> tuple[str, Any]:
    return (evaluator, None) if isinstance(evaluator, str) else next(iter(evaluator.items()))


@pytest.mark.skipif(not PYTHON, reason="make test-bfcl compares with the package")
def test_verdicts_are_those_of_the_package() -> None:
    drawn = cases(400)
    lines = [json.dumps([output_of(answer, expected, each[0]), expected, each]) for answer, expected, each in drawn]
    done = subprocess.run(
        [PYTHON, str(Path(__file__).with_name("evals_oracle.py"))],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    ours: list[dict[str, bool]] = []
    for answer, expected, (each,) in drawn:
        name, given = _named(each)
        ours.append(verdicts(answer, expected, [(name, arguments_of(name, given))]))
    wrong = [case for case in zip(drawn, ours, theirs, strict=True) if case[1] != case[2]]
    assert wrong == []
    assert 50 < sum(all(each.values()) for each in theirs) < 350
