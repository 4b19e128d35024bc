"""Skills are found in the right directories, links stay inside, and no resource is a file outside its skill."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_skills import DirectoryLoader, backend_loader, check_skills, discover_skills, package_loader
from deep_skills.resources import EscapesSkill, clean_path, list_resources, read_resource
from deep_skills.roots import project_roots, user_roots
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent

from deep_core import Kernel, create_default_deps, hookimpl
from tests.stubs import Call, Script, function_model

Write = Callable[..., Path]


def names(*roots: Path) -> list[str]:
    return [skill["name"] for skill in discover_skills(roots)]


def test_project_and_user_directories(project: Path, home: Path, skill: Write) -> None:
    skill(project / ".deep/skills", "a")
    skill(project / ".agents/skills", "b")
    skill(project / ".claude/skills", "c")
    skill(home / ".config/deep/skills", "d")
    skill(home / ".agents/skills", "e")
    skill(home / ".claude/skills", "f")
    for roots, source, expected in ((project_roots, "project", "abc"), (user_roots, "user", "def")):
        found = DirectoryLoader(source, roots).scan().skills
        assert "".join(item.meta.name for item in found) == expected
        assert {item.meta.source for item in found} == {source}


def test_a_loader_knows_at_a_look_that_it_has_nothing(
    project: Path, home: Path, skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, users = DirectoryLoader("project", project_roots), DirectoryLoader("user", user_roots)
    assert (ours.is_empty(), users.is_empty()) == (True, True)
    skill(project / ".agents/skills", "a")
    assert (ours.is_empty(), users.is_empty()) == (False, True)
    skill(home / ".config/deep/skills", "b")
    assert (ours.is_empty(), users.is_empty()) == (False, False)
    assert not package_loader("no_such_package.skills").is_empty(), "it has a problem to tell"
    gone = project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert not ours.is_empty(), "the search fails, and that is told"


def test_folders_of_folders_but_not_hidden_ones_nor_below_a_skill(tmp_path: Path, skill: Write) -> None:
    skill(tmp_path / "team/web", "deep")
    skill(tmp_path, "flat")
    skill(tmp_path / "flat/examples", "inside-a-skill")
    for hidden in (".git", "node_modules", "__pycache__"):
        skill(tmp_path / hidden, f"x{len(hidden)}")
    skill(tmp_path / "1/2/3/4", "too-deep")
    assert names(tmp_path) == ["flat", "deep"]
    assert [skill["name"] for skill in discover_skills([{"path": tmp_path, "recursive": False}])] == ["flat"]
    assert names(tmp_path / "flat") == ["flat"], "the folder of one skill may be named itself"
    assert names(tmp_path / "missing") == []


def test_the_lower_case_file_name_is_taken_too(tmp_path: Path, skill: Write) -> None:
    folder = skill(tmp_path, "lower")
    (folder / "SKILL.md").rename(folder / "skill.md")
    assert names(tmp_path) == ["lower"]


def test_duplicate_names_are_reported(tmp_path: Path, skill: Write) -> None:
    first, second = skill(tmp_path / "a", "same"), skill(tmp_path / "b", "same")
    assert [skill["path"] for skill in discover_skills([tmp_path])] == [str(first)]
    (problem,) = check_skills([tmp_path])
    assert str(problem) == f"{second / 'SKILL.md'}: the name 'same' is that of {first / 'SKILL.md'}"


def test_one_folder_found_twice_is_one_skill(project: Path, skill: Write) -> None:
    folder = skill(project / ".agents/skills", "one")
    (project / ".claude/skills").mkdir(parents=True)
    (project / ".claude/skills/one").symlink_to(folder)
    scan = DirectoryLoader("project", project_roots).scan()
    assert ([found.meta.name for found in scan.skills], scan.problems) == (["one"], ())


def test_links_that_lead_out_or_nowhere(project: Path, tmp_path: Path, skill: Write) -> None:
    root = project / ".deep/skills"
    outside = skill(tmp_path / "outside", "secret")
    skill(root, "fine")
    (root / "folder-out").symlink_to(outside)
    (root / "to-root").symlink_to("/")
    (root / "loop").symlink_to("loop")
    (root / "up").symlink_to(root)
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    for name, target in (("file-out", outside / "SKILL.md"), ("file-loop", "SKILL.md"), ("file-gone", "nothing")):
        (root / name).mkdir()
        (root / name / "SKILL.md").symlink_to(target)
    os.mkdir(root / "a-folder")
    os.mkdir(root / "a-folder/SKILL.md")
    os.mkdir(root / "a-pipe")
    os.mkfifo(root / "a-pipe/SKILL.md")
    scan = DirectoryLoader("project", project_roots).scan()
    assert [found.meta.name for found in scan.skills] == ["fine"]
    told = {Path(problem.path).relative_to(root).parts[0]: str(problem) for problem in scan.problems}
    assert set(told) == {"folder-out", "loop", "file-out", "file-loop", "file-gone", "a-folder", "a-pipe"}
    assert "a link out of" in told["folder-out"]
    assert "a link out of the skill's folder" in told["file-out"]
    assert "not a regular file" in told["a-pipe"]
    assert len(scan.problems) == len(told), scan.problems


def test_a_search_that_went_astray_ends(tmp_path: Path, skill: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_skills.discovery.MOST_FOLDERS", 5)
    for number in range(9):
        skill(tmp_path / "all", f"s{number}")
    assert names(tmp_path / "all") == ["s0", "s1", "s2", "s3"]
    assert [str(problem) for problem in check_skills([tmp_path / "all"])] == [
        f"{tmp_path / 'all'}: more than 5 folders; the others were not searched"
    ]


def test_an_unreadable_file_is_reported(tmp_path: Path, skill: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, _ = skill(tmp_path, "bad"), skill(tmp_path, "good")
    real = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path) == str(bad / "SKILL.md"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    assert names(tmp_path) == ["good"]
    assert [str(problem) for problem in check_skills([tmp_path])] == [
        f"{bad / 'SKILL.md'}: cannot be read: Permission denied"
    ]


# -- resources -------------------------------------------------------------------------------------------------------


def test_resources_may_be_nested(tmp_path: Path, skill: Write) -> None:
    folder = skill(tmp_path, "s")
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/c.txt").write_text("deep")
    (folder / "a..b").write_text("dots")
    (folder / "link").symlink_to("a/b/c.txt")
    assert list_resources(str(folder)) == ["a..b", "a/b/c.txt", "link"]
    for path in ("a/b/c.txt", "./a/b/c.txt", "a/../a/b/c.txt", "a\\b\\c.txt", "link"):
        assert read_resource(str(folder), path) == b"deep"
    assert read_resource(str(folder), "a..b") == b"dots"


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "..", "", ".", "a\0b", "C:/x", "..\\x", "link", "linked/x", "sneaky"]
)
def test_resources_never_escape(tmp_path: Path, skill: Write, path: str) -> None:
    folder = skill(tmp_path, "s")
    outside = tmp_path / "s-beside"  # the same prefix as the skill's folder
    outside.mkdir()
    (outside / "x").write_text("secret")
    (tmp_path / "x").write_text("secret")
    (folder / "a").mkdir()
    (folder / "link").symlink_to(outside / "x")
    (folder / "linked").symlink_to(outside)
    (folder / "sneaky").symlink_to("../s-beside/x")
    with pytest.raises(EscapesSkill):
        read_resource(str(folder), path)
    assert list_resources(str(folder)) == []


@given(st.text(alphabet="a./\\:~\0 ", max_size=12))
def test_a_clean_path_stays_below(path: str) -> None:
    try:
        clean = clean_path(path)
    except EscapesSkill:
        return
    assert not clean.startswith("/")
    assert ".." not in clean.split("/")


def test_a_path_that_becomes_a_link_is_refused(tmp_path: Path, skill: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = skill(tmp_path, "s")
    (folder / "sub").mkdir()
    (folder / "sub/x").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x").write_text("secret")
    real = os.path.realpath

    def swap(path: Any) -> str:
        resolved = real(path)
        if resolved.endswith("sub/x"):
            (folder / "sub").rename(folder / "was")
            (folder / "sub").symlink_to(tmp_path / "out")
        return resolved

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises(OSError, match="sub"):
        read_resource(str(folder), "sub/x")


# -- other loaders ---------------------------------------------------------------------------------------------------


def test_a_package_ships_skills_without_being_imported(
    tmp_path: Path, skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "acme_weather_x"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    skill(package / "skills", "forecast")
    monkeypatch.syspath_prepend(str(tmp_path))
    scan = package_loader("acme_weather_x.skills").scan()
    assert [(found.meta.name, found.meta.source) for found in scan.skills] == [("forecast", "package")]


@pytest.mark.anyio
async def test_a_package_that_is_not_there_is_a_problem() -> None:
    listing = await package_loader("no_such_package_x.skills").listing(None)  # type: ignore[arg-type]
    assert "no such directory in an installed package" in str(listing.problems[0])


@pytest.mark.anyio
@pytest.mark.parametrize("backend", ["memory", "local"])
async def test_skills_in_the_workspace(
    project: Path,
    backend: str,
    results: Callable[[list[Any]], list[str]],
    contexts: Callable[[list[Any], str], list[str]],
) -> None:
    import deep_backends
    import deep_filesystem
    import deep_skills

    class Acme:
        @staticmethod
        @hookimpl
        def deep_skill_loaders(context: Any) -> list[Any]:
            return [backend_loader("team/skills")]

    kernel = Kernel(plugins=[deep_skills, deep_backends, deep_filesystem, Acme], discover=False, strict=True, config={})
    text = "---\nname: inside\ndescription: In the workspace.\n---\nInner."
    made = [
        Call("write_file", {"path": "team/skills/inside/SKILL.md", "content": text}),
        Call("write_file", {"path": "team/skills/inside/ref/x.md", "content": "X"}),
        Call("write_file", {"path": "team/skills/broken/SKILL.md", "content": "---\nname: [\n---\n"}),
    ]
    read = {"skill_name": "inside", "resource_name": "ref/x.md"}
    script = Script(
        made,
        Call("list_skills"),
        Call("load_skill", {"skill_name": "inside"}),
        [Call("read_skill_resource", read), Call("read_skill_resource", {**read, "resource_name": "../../../x"})],
        "done",
        "next",
    )
    agent: Agent[Any, Any] = kernel.create_agent(function_model(script), backend=backend)
    deps = create_default_deps()
    with anyio.fail_after(60):
        result = await agent.run("go", deps=deps)
        second = await agent.run("next", deps=deps, message_history=result.all_messages())
    listed, loaded, resource, escape = results(result.all_messages())[3:]
    assert "- inside (project): In the workspace." in listed
    assert "team/skills/broken/SKILL.md:" in listed
    assert "Inner." in loaded
    assert "- ref/x.md" in loaded
    assert resource == "X"
    assert "not a path inside the skill" in escape
    assert "inside: In the workspace." in contexts(second.all_messages(), "catalog")[0]
    kernel.close()
