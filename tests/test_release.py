"""scripts/release.py on a copy of the tree; the metadata and the workflows that a release needs."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from hatchling.builders.sdist import SdistBuilder

from tests.environments import REPOSITORY
from tests.local_wheels import PROJECTS, build, of_the_checkout, unpack_sdist

FOLDERS = [folder for folder in PROJECTS if folder == REPOSITORY or folder.parent.name == "plugins"]
HOME = "https://github.com/someone/deep"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_script", REPOSITORY / "scripts" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = script()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of every file that a release changes or reads."""
    copy = tmp_path / "tree"
    for path in {*release.versioned(REPOSITORY), REPOSITORY / "CHANGELOG.md"}:
        target = copy / path.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for package in (path.parent for path in REPOSITORY.glob("plugins/*/src/*/__init__.py")):
        (copy / package.relative_to(REPOSITORY)).mkdir(parents=True, exist_ok=True)
    return copy


Said = Callable[..., tuple[int, str]]


@pytest.fixture
def said(tree: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs the script over the copy; returns its exit code and what it printed."""

    def run(*arguments: str) -> tuple[int, str]:
        code = release.main(arguments, tree)
        return code, capsys.readouterr().out

    return run


def fragment(tree: Path, name: str, text: str) -> None:
    (tree / "changelog.d").mkdir(exist_ok=True)
    (tree / "changelog.d" / name).write_text(text, "utf-8")


@pytest.mark.slow
def test_a_release_step_by_step(tree: Path, said: Said) -> None:
    code, told = said("check")
    assert code == 1
    assert "[project.urls]" in told
    assert said("home", HOME + "/") == (0, "home: done\n")
    assert said("home", HOME) == (0, "home: done\n")  # again, nothing stands twice
    assert all(release.project(folder)["urls"]["Issues"] == f"{HOME}/issues" for folder in release.projects(tree))

    assert said("bump", "0.2.0") == (0, "bump: done\n")
    assert {release.project(folder)["version"] for folder in release.projects(tree)} == {"0.2.0"}
    assert '__version__ = "0.2.0"' in (tree / "deep_core" / "__init__.py").read_text("utf-8")
    fragment(tree, "zebra.added.md", "deep-cli: `deep zebra` draws one.\n")
    assert said("check") == (1, 'CHANGELOG.md has no "## 0.2.0 (DATE)" with all changes: run release.py changelog\n')
    assert said("changelog") == (0, "changelog: done\n")
    assert said("check") == (0, "check: done\n")


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "next", "v0.2.0", "0.02.0"])
def test_a_version_that_is_none_or_no_later_one_changes_nothing(tree: Path, said: Said, version: str) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    code, told = said("bump", version)
    assert code == 1
    assert "0.2.0" in told
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_a_version_that_differs_and_a_range_that_leaves_it_out_are_found(tree: Path, said: Said) -> None:
    assert said("bump", "1.0.0")[0] == 0
    todo = tree / "plugins" / "todo" / "pyproject.toml"
    todo.write_text(todo.read_text("utf-8").replace('version = "1.0.0"', 'version = "0.9.0"'), "utf-8")
    _, told = said("check")
    assert "plugins/todo/pyproject.toml says 0.9.0, the kernel 1.0.0" in told
    assert re.search(r"plugins/skills/pyproject.toml needs deep-agent-core.*, which leaves out 1.0.0", told)


# -- the changelog -----------------------------------------------------------------------------------------------------


def test_fragments_become_a_section_by_kind_and_are_gone(tree: Path, said: Said) -> None:
    (tree / "CHANGELOG.md").write_text(
        "# Changelog\n\nAbout it.\n\n## 0.0.9 (2025-01-01)\n\n- deep-todo: todos.\n", "utf-8"
    )
    fragment(tree, "b.fixed.md", "deep-todo: a todo\nstays.\n")
    fragment(tree, "a.fixed.md", "deep-cli, deep-web: " + "long " * 30)
    fragment(tree, "c.added.md", "deep-web: a page.")
    fragment(tree, "README.md", "How to write one.")
    assert said("changelog")[0] == 0
    said("changelog")  # again, nothing stands twice
    text = (tree / "CHANGELOG.md").read_text("utf-8")
    before, section, older = text.split("\n## ")
    assert before == "# Changelog\n\nAbout it.\n"
    assert re.fullmatch(r"0\.1\.0 \(\d{4}-\d\d-\d\d\)", section.splitlines()[0])
    assert section.partition("\n")[2].replace("\n  long", " long") == (
        "\n### Added\n\n- deep-web: a page.\n\n### Fixed\n\n- deep-cli, deep-web: "
        + "long " * 29
        + "long\n- deep-todo: a todo stays.\n"
    )
    assert older == "0.0.9 (2025-01-01)\n\n- deep-todo: todos.\n"
    assert [path.name for path in (tree / "changelog.d").iterdir()] == ["README.md"]


def test_entries_that_a_section_has_stay(tree: Path, said: Said) -> None:
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1.0 (unreleased)\n\n- deep-todo: todos.\n", "utf-8")
    fragment(tree, "c.removed.md", "deep-web: no page.")
    assert said("changelog")[0] == 0
    _, _, body = (tree / "CHANGELOG.md").read_text("utf-8").partition(")\n\n")
    assert body == "- deep-todo: todos.\n\n### Removed\n\n- deep-web: no page.\n"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("zebra.md", "deep-cli: a zebra.", "NAME.KIND.md"),
        ("added.md", "deep-cli: a zebra.", "NAME.KIND.md"),
        ("zebra.feature.md", "deep-cli: a zebra.", "NAME.KIND.md"),
        ("zebra.added.rst", "deep-cli: a zebra.", "NAME.KIND.md"),
        ("zebra.added.md", "A zebra.", "begin with the distribution"),
        ("zebra.added.md", "deep-zebra: a zebra.", "begin with the distribution"),
        ("zebra.added.md", "deep-cli:\n", "after the colon"),
    ],
)
def test_a_fragment_that_is_none_is_told_and_nothing_is_changed(
    tree: Path, said: Said, name: str, text: str, why: str
) -> None:
    fragment(tree, name, text)
    before = (tree / "CHANGELOG.md").read_bytes()
    code, told = said("changelog")
    assert (code, told.partition(":")[0]) == (1, f"changelog.d/{name}")
    assert why in told
    assert (tree / "CHANGELOG.md").read_bytes() == before


def test_the_fragments_of_this_checkout_can_be_assembled() -> None:
    own = {release.project(folder)["name"] for folder in FOLDERS}
    assert list(release.changelog.wrong(REPOSITORY, own)) == []


def test_an_address_that_is_none_is_refused(said: Said) -> None:
    code, told = said("home", "github.com/someone")
    assert code == 1
    assert "https://host/owner/name" in told


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_metadata_is_whole(folder: Path) -> None:
    data = release.project(folder)
    assert len(data["description"]) <= 120
    assert (folder / data["readme"]).is_file()
    assert data["license-files"] == ["LICENSE"]
    assert (folder / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()
    assert {"Development Status :: 3 - Alpha", "Programming Language :: Python :: 3.11"} <= set(data["classifiers"])
    assert ("deep-plugin" in data["keywords"]) == bool({"deep", "deep.commands"} & {*data.get("entry-points", {})})


# -- names -------------------------------------------------------------------------------------------------------------

Name = release.names.Name


def test_every_distribution_and_module_of_ours_was_compared_with_the_index(said: Said) -> None:
    own = release.names.own_names(REPOSITORY)
    assert {name.name for name in own if name.kind == "distribution"} == {release.project(f)["name"] for f in FOLDERS}
    packages = [REPOSITORY / "deep_core" / "__init__.py", *REPOSITORY.glob("plugins/*/src/*/__init__.py")]
    modules = {name.name for name in own if name.kind == "module"}
    assert modules == {*(path.parent.name for path in packages), "deep_command"}
    assert said("names") == (0, "names: done\n")


@pytest.mark.parametrize(
    ("kind", "ours", "theirs"),
    [
        ("distribution", "deep-core", "deepcore"),
        ("distribution", "deep-all", "deepali"),
        ("distribution", "deep-mcp", "DeepMCP"),
        ("distribution", "deep-memory", "deep_memory"),
        ("distribution", "tool-1", "to.0l.I"),
        ("module", "deep_memory", "deep-memory"),
        ("module", "deep_memory", "Deep.Memory"),
    ],
)
def test_a_name_that_the_index_takes_for_another_is_found(kind: str, ours: str, theirs: str) -> None:
    (row,) = release.names.compare([Name(kind, ours)], ["numpy", theirs, "deep"], [])
    assert row["result"] == f"taken by {theirs}"
    (told,) = release.names.unchecked([Name(kind, ours)], [row])
    assert told == f"the {kind} {ours} is taken by {theirs}: choose another name"


@pytest.mark.parametrize(
    ("kind", "theirs"), [("distribution", "deepcores"), ("module", "deepcore"), ("module", "deep")]
)
def test_a_name_that_the_index_tells_from_ours_is_free(kind: str, theirs: str) -> None:
    name = Name(kind, "deep-core" if kind == "distribution" else "deep_core")
    (row,) = release.names.compare([name], [theirs], [])
    assert row["result"] == "free"
    assert list(release.names.unchecked([name], [row])) == []


def test_two_names_of_ours_that_the_index_takes_for_one_are_found() -> None:
    pair = [Name("distribution", "deep-ail"), Name("distribution", "deep-all")]
    (told,) = release.names.unchecked(pair, release.names.compare(pair, [], []))
    assert told == "the index takes the distribution deep-all for deep-ail: rename one of them"


def test_what_is_ours_stays_ours_and_what_was_never_compared_is_told(
    tree: Path, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "names_checked.json"
    monkeypatch.setattr(release.names.read, "__defaults__", (listed,))
    monkeypatch.setattr(release.names.write, "__defaults__", (listed,))
    rows = [row for row in release.names.read(release.names.CHECKED) if row["name"] != "deep-todo"]
    release.names.write([{**row, "result": "ours"} if row["name"] == "deep-web" else row for row in rows])
    assert said("names") == (
        1,
        "the distribution deep-todo was never compared: run release.py names --against NAMES\n",
    )
    assert "deep-todo was never compared" in said("check")[1]
    index = tmp_path / "index.tsv"
    index.write_text("deepweb\t1.0\n", "utf-8")
    assert said("names", "--against", str(index))[0] == 1  # an index of one name is none
    index.write_text("deepweb\t1.0\nnumpy\n" + "a\n" * 100_000, "utf-8")
    assert said("names", "--against", str(index)) == (0, "names: done\n")
    assert {row["result"] for row in release.names.read() if row["name"] == "deep-web"} == {"ours"}


WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))


@pytest.mark.slow
def test_workflows_and_issue_forms_follow_their_schemas() -> None:
    forms = [path for path in (REPOSITORY / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert WORKFLOWS
    assert forms
    for schema, files in (("vendor.github-workflows", WORKFLOWS), ("vendor.github-issue-forms", forms)):
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_actions_are_pinned_and_only_the_one_that_publishes_may_sign() -> None:
    text = {path.name: path.read_text("utf-8") for path in WORKFLOWS}
    uses = re.findall(r"uses: (\S+)", "".join(text.values()))
    assert uses
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+", action) for action in uses)
    assert [name for name in text if "id-token: write" in text[name]] == ["release.yml"]
    assert not re.search(r"secrets\.|password", "".join(text.values()))


# -- real builds -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return of_the_checkout(tmp_path_factory)


def files(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel; the lines of RECORD sorted, as their order is that of the folders."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return {n: b"".join(sorted(d.splitlines(True))) if n.endswith("/RECORD") else d for n, d in found.items()}


@pytest.mark.wheels
def test_a_wheel_from_the_sdist_is_the_wheel_from_the_tree(wheels: Mapping[str, Path], tmp_path: Path) -> None:
    sdists, unpacked, out = tmp_path / "sdists", tmp_path / "unpacked", tmp_path / "wheels"
    for folder in FOLDERS:
        list(SdistBuilder(str(folder)).build(directory=str(sdists)))
    for path in sdists.iterdir():
        unpack_sdist(path, unpacked)
    build(sorted(unpacked.iterdir()), out)
    built = sorted(out.glob("*.whl"))
    assert len(built) == len(FOLDERS)
    for wheel in built:
        assert files(wheel) == files(wheels[wheel.name.partition("-")[0].replace("_", "-")]), wheel.name
    for path in sdists.iterdir():
        with tarfile.open(path) as archive:
            assert not [name for name in archive.getnames() if "__pycache__" in name or "/.venv" in name], path.name


@pytest.mark.wheels
def test_entry_points_of_the_wheels_import_and_one_that_does_not_is_named(
    wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    # The script itself imports those of all wheels, in `make release`.
    assert release.entry_points([wheels["deep-agent-core"], wheels["deep-todo"]], tmp_path / "whole") == []
    broken = tmp_path / wheels["deep-todo"].name
    with zipfile.ZipFile(broken, "w") as archive:
        for name, data in files(wheels["deep-todo"]).items():
            archive.writestr(name, data.replace(b"= deep_todo", b"= deep_gone"))
    (told,) = release.entry_points([broken], tmp_path / "broken")
    assert "deep-todo: entry point todo = deep_gone: ModuleNotFoundError" in told
