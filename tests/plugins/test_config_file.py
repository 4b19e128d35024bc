"""Which files configuration is read from, that a file is read once, and what trust is bound to."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_core import ConfigError, PluginWarning
from deep_core.plugins.config import load_config
from deep_core.plugins.config_file import ConfigFile, project_files
from tests.plugins.test_config import Project, project

__all__ = ["project"]

OURS = [
    "[tool.deep]\n",
    "[tool.deep.agent]\n",
    "[tool]\ndeep = {}\n",
    "[tool]\ndeep.agent.tool_filter = 'read'\n",
    "tool.deep.agent.tool_filter = 'read'\n",
    "tool = { deep = {} }\n",
    "['tool'.\"deep\"]\n",
    "[ tool . deep ]\n",
    "[[tool.deep]]\n",
]
OTHERS = [
    "",
    "[tool.deepeval]\nx = 1\n",
    "# see [tool.deep]\n[project]\nname = 'tool'\n",
    "[project]\ndependencies = ['deep-agent-core']\n[tool.ruff]\n",
    "{% if deep %}[tool.ruff]{% endif %}\n",
]


@pytest.mark.parametrize("text", OURS)
def test_a_pyproject_with_our_table_is_read_in_every_spelling(project: Project, text: str) -> None:
    path = project.folder / "pyproject.toml"
    path.write_text(text)
    assert [file.path for file in project_files()] == [path.resolve()]


@pytest.mark.parametrize("text", OTHERS)
def test_a_pyproject_without_our_table_is_not_ours(project: Project, text: str) -> None:
    (project.folder / "pyproject.toml").write_text(text)
    assert list(project_files()) == []


@pytest.mark.parametrize(
    "content",
    [b"[agent", b"\x00", b"\xff\xfe", b"x = " + b"[" * 5_000, b"x = " + b"{a = " * 5_000, b"a = 1\na = 2"],
    ids=["unclosed", "NUL", "not UTF-8", "nested arrays", "nested tables", "twice"],
)
@pytest.mark.parametrize("name", ["deep.toml", "pyproject.toml"])
def test_a_malformed_file_is_one_error_that_names_it(project: Project, name: str, content: bytes) -> None:
    path = project.folder / name
    path.write_bytes(b"[tool.deep]\n" * (name != "deep.toml") + content)
    with pytest.raises(ConfigError, match=name):
        load_config()


def test_an_unreadable_file_is_one_error_that_names_it(project: Project) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        ConfigFile.read(project.folder / "absent.toml")


@given(st.binary(max_size=200) | st.text(alphabet="[]{}.=\"' \n#toldep", max_size=60).map(str.encode))
def test_whatever_a_file_holds_it_parses_or_is_one_error(content: bytes) -> None:
    for name in ("deep.toml", "pyproject.toml"):
        file = ConfigFile(Path(name), content)
        for read in (file.declares_deep, file.tables):
            with contextlib.suppress(ConfigError):
                read()


# -- what hides a file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deep.toml", "pyproject.toml", ".git"])
def test_what_would_hide_the_projects_file_is_protected(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = project.file("[agent]\ninterrupt_on = 'write'")
    inner = project.folder / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    protected = load_config().protected
    assert {path.resolve(), (inner / name).resolve(), (inner.parent / name).resolve()} <= {*protected}
    assert (project.folder / ".git").resolve() not in protected  # it is below no file that was read
    (inner / name).write_text("[tool.deep]\n" if name == "pyproject.toml" else "")
    assert [file.path for file in project_files()][:1] != [path.resolve()]  # it would hide the file


def test_beside_a_pyproject_the_name_of_the_stronger_file_is_protected(project: Project) -> None:
    path = project.folder / "pyproject.toml"
    path.write_text("[tool.deep]\n")
    assert (project.folder / "deep.toml").resolve() in load_config().protected
    project.file("")
    assert path.resolve() not in load_config().protected


def test_the_start_says_which_file_a_new_untrusted_one_hides(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = project.file("[agent]\ninterrupt_on = 'write'")
    inner = project.folder / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    (inner / "deep.toml").write_text("")
    with pytest.warns(PluginWarning, match=f"{policy.resolve()} is not read, because {inner.resolve()}"):
        load_config()
    ConfigFile.read(inner / "deep.toml").trust()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_config()


# -- trust -------------------------------------------------------------------------------------------------------------


def test_a_link_to_a_trusted_file_is_not_trusted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project.file("[agent]\ninterrupt_on = false")
    ConfigFile.read(path).trust()
    other = project.folder / "other"
    (other / ".git").mkdir(parents=True)
    (other / "deep.toml").symlink_to(path)
    monkeypatch.chdir(other)
    (found,) = project_files()
    assert not found.is_trusted()
    monkeypatch.chdir(project.folder)
    link = project.folder.parent / "link"
    link.symlink_to(project.folder)  # the same folder under another name
    monkeypatch.chdir(link)
    (found,) = project_files()
    assert found.is_trusted()


def test_what_is_parsed_is_what_was_trusted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file changes between any two reads: the content that counts is never another than the digest's."""
    path = project.file("[agent]\ninterrupt_on = 'read'")
    ConfigFile.read(path).trust()
    plain, reads = Path.read_bytes, []

    def racing(self: Path) -> bytes:
        content = plain(self)
        if self.name == "deep.toml":
            reads.append(self)
            os.replace(other, path)
        return content

    other = project.folder / "other.toml"
    other.write_text("[agent]\ninterrupt_on = false")
    monkeypatch.setattr(Path, "read_bytes", racing)
    (layer, *_) = load_config().layers
    assert (len(reads), layer.trusted, layer.data["agent"]) == (1, True, {"interrupt_on": "read"})


def test_deep_config_trust_records_what_it_read(project: Project) -> None:
    file = ConfigFile.read(project.file("[agent]\ninterrupt_on = 'read'"))
    project.file("[agent]\ninterrupt_on = false")
    file.trust()
    (found,) = project_files()
    assert not found.is_trusted()


def steps(content: bytes) -> int:
    """Lines that run to find out whether a pyproject is ours."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    file = ConfigFile(Path("pyproject.toml"), content)
    file.declares_deep()  # imports
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        file.declares_deep()
    finally:
        sys.settrace(before)
    return count


def test_the_cost_of_a_pyproject_grows_with_its_length() -> None:
    few, many = (steps(b"[project]\nname = 'deep tool'\n" + b"\n" * lines) for lines in (1_000, 8_000))
    assert many < few * 10
