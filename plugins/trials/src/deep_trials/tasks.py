"""A task: a folder in Harbor's layout, read once, so that nothing an agent does later changes how it is judged."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import TaskError
from .servers import Server

__all__ = ["Solution", "Task", "TaskFile", "load_task", "read_tree"]

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
IGNORED = ("__pycache__", ".DS_Store")


class _Table(BaseModel):
    """A table that Harbor may extend: unknown keys are left to it."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Metadata(_Table):
    """`[metadata]`."""

    tags: tuple[str, ...] = ()


class Timeout(_Table):
    """`[agent]` and `[verifier]`."""

    timeout_sec: Positive = 600.0


class DeepTable(BaseModel):
    """`[deep]`: what Harbor does not have. Its keys are ours, so an unknown one is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requires: tuple[str, ...] = ()
    """Plugins without which the task cannot be solved by its nature; `ablate` does not drop them."""
    approve: str | None = None
    """A tool expression: which calls that ask are approved. All others are denied."""
    backend: Literal["auto", "local", "sandbox", "memory"] = "auto"
    """`auto`: `sandbox` where bubblewrap works inside a trial and `approve` is set, else `local`."""
    network: bool = False
    """Whether the agent is offered tools tagged `network`."""
    requests: Count = 50
    """Most requests to the model."""
    tokens: Count | None = None
    """Most tokens, in and out."""
    usd: Positive | None = None
    """Most US dollars, by list prices."""
    ideal_steps: Count | None = None
    """Calls that a good solution needs."""
    keep: tuple[str, ...] = ()
    """Files that configure test tools and that the agent may change, such as `conftest.py`; others are set back."""


class TaskFile(_Table):
    """`task.toml`."""

    version: str = "1.0"
    metadata: Metadata = Metadata()
    agent: Timeout = Timeout()
    verifier: Timeout = Timeout()
    deep: DeepTable = DeepTable()


@dataclass(frozen=True)
class Solution:
    """The reference solution.

    Attributes:
        script: a model's answers, played through the real agent: `script.json`. None without one.
        files: all files of `solution/`; `solve.sh` runs in the workspace if there is no script.
    """

    script: Any
    files: dict[str, bytes]


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: the folder's name.
        folder: where it was read.
        instruction: the prompt.
        file: `task.toml`.
        files: what the workspace holds at first.
        tests: what judges, copied beside the workspace once the agent has stopped.
        solution: the reference.
        digest: of all its files.
        functions: what the agent is offered instead of its own tools: `name`, `description` and `parameters`, a JSON
            Schema. Its first calls of them end the trial, if there is no `server`. Empty for tasks that are done with
            tools.
        server: what runs the functions.
        turns: what the user says once the agent has answered, one after the other.
    """

    name: str
    folder: Path
    instruction: str
    file: TaskFile
    files: dict[str, bytes]
    tests: dict[str, bytes]
    solution: Solution
    digest: str
    functions: tuple[Mapping[str, Any], ...] = ()
    server: Server | None = None
    turns: tuple[str, ...] = ()


def read_tree(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their relative names; empty if there is no such folder.

    Raises:
        TaskError: one is a link, which could lead anywhere.
    """
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if any(part in IGNORED for part in path.parts):
            continue
        if path.is_symlink():
            raise TaskError(f"{path}: a task's files cannot be links")
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def load_task(folder: Path) -> Task:
    """Read a task.

    Raises:
        TaskError: it lacks a file, or one is wrong; the message says which.
    """
    file = _read_file(folder / "task.toml")
    instruction = _text(folder / "instruction.md")
    files = {**_environment(folder), **read_tree(folder / "files")}
    tests = read_tree(folder / "tests")
    if not {"test.sh", "check.py"} & tests.keys():
        raise TaskError(f"{folder}/tests: add check.py (a function `check(trial)`) or test.sh (exits 0)")
    solution = _solution(folder)
    digest = hashlib.sha256()
    for name, data in read_tree(folder).items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return Task(folder.name, folder, instruction.strip(), file, files, tests, solution, digest.hexdigest())


def _environment(folder: Path) -> dict[str, bytes]:
    found = read_tree(folder / "environment")
    if "Dockerfile" in found:
        raise TaskError(f"{folder}/environment/Dockerfile: a task with an image runs with Harbor, not here")
    return found


def _solution(folder: Path) -> Solution:
    files = read_tree(folder / "solution")
    if not {"script.json", "solve.sh"} & files.keys():
        raise TaskError(f"{folder}/solution: add script.json (a model's answers) or solve.sh")
    try:
        script = json.loads(files["script.json"]) if "script.json" in files else None
    except ValueError as error:
        raise TaskError(f"{folder}/solution/script.json: {error}") from error
    return Solution(script, files)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: {error}") from error


def _read_file(path: Path) -> TaskFile:
    try:
        return TaskFile.model_validate(tomllib.loads(_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
