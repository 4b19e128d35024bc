"""A suite: a folder of tasks with a `suite.toml`, found by its path or, through a hook, by its name."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import SuiteError
from .tasks import Task, load_task

if TYPE_CHECKING:
    from deep_core import PluginKernel

__all__ = ["FILE", "OWN", "Suite", "SuiteFile", "known_suites", "load_suite", "write_hashes"]

OWN = tuple(sorted(path.parent for path in (Path(__file__).parent / "suites_of_ours").glob("*/suite.toml")))
"""The suites of this distribution."""
FILE = "suite.toml"


class SuiteFile(BaseModel):
    """`suite.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = ""
    """What the suite measures, in one line."""
    license: str = Field(min_length=1)
    """The license of its tasks and their files."""
    sources: tuple[str, ...] = ()
    """Where files of others come from, and their licenses."""
    models: tuple[str, ...] = ()
    """The models that run it if none is named."""
    tasks: dict[str, str] = Field(default_factory=dict)
    """Task -> the digest of its files when it was validated: `deep eval validate --write`."""


@dataclass(frozen=True)
class Suite:
    """A suite.

    Attributes:
        name: the folder's name.
        folder: where it is.
        file: `suite.toml`.
        tasks: in the order of their names.
    """

    name: str
    folder: Path
    file: SuiteFile
    tasks: tuple[Task, ...]

    @property
    def digest(self) -> str:
        """The digest of all tasks."""
        return hashlib.sha256("".join(f"{task.name}={task.digest};" for task in self.tasks).encode()).hexdigest()

    def changed(self) -> Iterator[str]:
        """Yield the tasks that are not as they were when they were validated; all, if none ever was."""
        yield from (task.name for task in self.tasks if self.file.tasks.get(task.name) != task.digest)


def known_suites(kernel: "PluginKernel") -> dict[str, Path]:
    """Return the suites of all plugins by name.

    Raises:
        SuiteError: two plugins have a suite of one name.
    """
    found: dict[str, tuple[str, Path]] = {}
    given_by_all = kernel.caller.collect(
        "deep_eval_suites",
        lambda plugin: {"context": kernel.context(plugin)},
        among=kernel.active,
        drop=kernel.leave_out,
    )
    for given in given_by_all:
        name = given.value.name
        if name in found:
            first, path = found[name]
            raise SuiteError(
                f"two plugins have a suite {name!r}:\n  {first}: {path}\n  {given.plugin}: {given.value}\n"
                "name one of them by its path"
            )
        found[name] = given.plugin, given.value
    return {name: path for name, (_, path) in found.items()}


def load_suite(folder: Path) -> Suite:
    """Read a suite. Raises SuiteError and TaskError."""
    path = folder / FILE
    try:
        file = SuiteFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SuiteError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise SuiteError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    tasks = tuple(load_task(each.parent) for each in sorted(folder.glob("*/task.toml")))
    if not tasks:
        raise SuiteError(
            f"{folder} has no tasks: a task is a folder with task.toml, instruction.md, tests and solution"
        )
    if gone := sorted(file.tasks.keys() - {task.name for task in tasks}):
        raise SuiteError(f"{path}: [tasks] names {', '.join(gone)}, which the folder does not have")
    return Suite(folder.name, folder, file, tasks)


def write_hashes(suite: Suite) -> None:
    """Write the digest of each task into `suite.toml`, as its last table."""
    path = suite.folder / FILE
    text = path.read_text(encoding="utf-8").partition("\n[tasks]")[0].rstrip("\n")
    rows = "\n".join(f'"{task.name}" = "{task.digest}"' for task in suite.tasks)
    path.write_text(f"{text}\n\n[tasks]\n{rows}\n", encoding="utf-8")
