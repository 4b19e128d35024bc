"""What pages say to install can be installed: ours from `make wheels`, the rest from the index."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.environments import REPOSITORY
from tests.local_wheels import PROJECTS
from tests.stubs import Call, OpenAIStub, Script

OURS = {
    tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["name"]: folder
    for folder in PROJECTS
    if folder.parent.name != "fixtures"
}
EXPORTED = REPOSITORY / "docs" / "first-plugin.md"
"""Its reader is in another folder: it exports PIP_FIND_LINKS."""
IMPORTED = """
import sys
from importlib.metadata import distributions
for found in distributions():
    if found.name in sys.argv[1:]:
        for point in found.entry_points:
            if point.group != "deep.commands":  # they are for the command line, which brings click
                point.load()
        print(found.name)
"""
INSTALL = re.compile(r"^\s*(?:\$ )?(pip install (?!-e |--quiet -e ).*)$")


def pages() -> list[Path]:
    """Every page that is written by hand, and the generated ones."""
    globs = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/*.md", "plugins/*/README.md")
    return [path for pattern in globs for path in sorted(REPOSITORY.glob(pattern))]


def install_lines(page: Path) -> Iterator[tuple[int, str]]:
    """The lines that install something of ours, with their numbers."""
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if (found := INSTALL.match(line)) and ours(found[1]):
            yield number, found[1]


def ours(line: str) -> set[str]:
    """The distributions of ours that an install line names."""
    words = [word for word in shlex.split(line, comments=True)[2:] if re.match(r"[\w.-]+(\[.*\])?([<>=].*)?$", word)]
    return {Requirement(word).name for word in words if not word.startswith("-") and word != "dist"} & OURS.keys()


LINES = defaultdict[str, list[str]](list)
for _page in pages():
    for _, _line in install_lines(_page):
        words = shlex.join(shlex.split(_line, comments=True)).removeprefix("pip install ")
        LINES[words.removeprefix("--find-links dist ")].append(_page.relative_to(REPOSITORY).as_posix())


def test_every_install_line_says_where_the_wheels_come_from() -> None:
    assert len(LINES) > 20
    wrong = list[str]()
    for page in pages():
        lines = page.read_text("utf-8").splitlines()
        for number, line in install_lines(page):
            before = "\n".join(lines[max(0, number - 12) : number])
            if "make wheels" not in before or (" --find-links dist " in line) == (page == EXPORTED):
                wrong.append(f"{page.relative_to(REPOSITORY)}:{number}: {line}")
    assert wrong == [], "write `make wheels` above, and `pip install --find-links dist …`: nothing is on an index yet"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dist/, as `make wheels` fills it."""
    folder = tmp_path_factory.mktemp("reader")
    subprocess.run([sys.executable, REPOSITORY / "scripts" / "release.py", "wheels", folder / "dist"], check=True)
    return folder


def fresh(folder: Path) -> Path:
    """The interpreter of a new environment."""
    uv("venv", "--quiet", "--seed", "--python", sys.executable, folder, cwd=folder.parent)
    return folder / "bin" / "python"


def uv(*arguments: str | Path, cwd: Path) -> None:
    """Run uv, which installs as pip does, and faster."""
    done = subprocess.run(
        [sys.executable, "-m", "uv", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def brings(python: Path, *names: str) -> None:
    """All entry points of these distributions load in an environment."""
    found = subprocess.run([python, "-c", IMPORTED, *names], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert set(names) <= {*found.stdout.split()}


@pytest.mark.wheels
@pytest.mark.parametrize("line", LINES)
def test_a_line_installs_what_it_names(line: str, reader: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "env")
    uv("pip", "install", "--quiet", "--python", python, "--find-links", "dist", *shlex.split(line), cwd=reader)
    brings(python, *ours(f"pip install {line}"))


@pytest.mark.wheels
def test_pip_itself_installs_everything(reader: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "env")
    command = [python, "-m", "pip", "install", "--quiet", "--find-links", "dist", "deep-everything"]
    subprocess.run(command, cwd=reader, check=True)
    brings(python, "deep-everything", "deep-cli", "deep-memories")


@pytest.mark.wheels
def test_the_command_line_alone_gives_the_agent_of_a_page_a_chat(reader: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "env")
    wanted = ("--find-links", "dist", "deep-cli", "pydantic-ai-slim[openai]")
    uv("pip", "install", "--quiet", "--python", python, *wanted, cwd=reader)
    page = (REPOSITORY / "docs" / "own-agent.md").read_text("utf-8")
    (code,) = re.findall(r'```python title="agent.py"\n(.*?)```', page, re.S)
    (tmp_path / "agent.py").write_text(code, encoding="utf-8")
    chat = [python.parent / "deep", "chat", "--agent", "agent.py", "--model", "openai-chat:stub"]
    with OpenAIStub(Script(Call("stock", {"product": "apples"}), "Seven.")) as stub:
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), **stub.env}
        done = subprocess.run(
            chat, cwd=tmp_path, env=env, input="How many apples?\n", capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (0, "Seven.\n"), done.stderr
    assert [m["content"] for m in stub.requests[1]["messages"] if m["role"] == "tool"] == ["7 of apples"]


# -- constraints.txt ---------------------------------------------------------------------------------------------------


@pytest.mark.wheels
def test_everything_can_be_installed_with_the_pinned_versions(reader: Path, tmp_path: Path) -> None:
    python = fresh(tmp_path / "env")
    pinned = ("--constraint", REPOSITORY / "constraints.txt")
    uv("pip", "install", "--quiet", "--python", python, "--find-links", "dist", *pinned, "deep-everything", cwd=reader)
    brings(python, "deep-everything", "deep-cli", "deep-memories")
    uv("pip", "check", "--python", python, cwd=reader)


@pytest.mark.wheels
def test_the_pins_fit_all_distributions_with_all_extras_and_the_tools_of_the_tests(
    reader: Path, tmp_path: Path
) -> None:
    """And together they name every third-party distribution that comes with ours."""
    python, every = fresh(tmp_path / "env"), list[str]()
    for name, folder in OURS.items():
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        every.append(f"{name}[{','.join(project.get('optional-dependencies', {}))}]")
    command = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--python", python, "--find-links", "dist"]
    command += ["--constraint", REPOSITORY / "constraints.txt", *every]
    for listed in ("run", "dev"):
        command += ["--requirement", REPOSITORY / "requirements" / f"{listed}.txt"]
    done = subprocess.run(command, cwd=reader, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = set(re.findall(r"^ \+ (\S+)==", done.stderr, re.M)) - OURS.keys()
    pins = {Requirement(line).name for line in (REPOSITORY / "constraints.txt").read_text("utf-8").splitlines()}
    assert wanted - {re.sub(r"[-_.]+", "-", pin).lower() for pin in pins} <= {"pip"}
