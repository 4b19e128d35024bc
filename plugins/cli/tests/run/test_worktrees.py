"""A session in a git worktree of its own: listed, shown, merged or dropped."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deep_cli.failure import Failure
from deep_cli.run.rules import rules_of
from deep_cli.run.worktrees import add_worktree, diff_of, drop, find_worktree, list_worktrees, merge, summary
from deep_sessions import folder_owner

from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from tests.stubs import Call, OpenAIStub, Script

MODEL = ("--model", "openai-chat:stub")
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, and a data directory of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "A")
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@example.org")
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("one\n")
    begin(folder)
    return folder


def begin(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")


@pytest.mark.slow
def test_all_that_changed_is_shown_and_merged(repository: Path) -> None:
    made, here = add_worktree(repository / "sub", "fix")
    assert (here, find_worktree(here)) == (made.path / "sub", made)
    (here / "a.txt").write_text("two\n")
    git(made.path, "commit", "-qam", "One")
    (here / "new.txt").write_text("new\n")
    shown = diff_of(made)
    assert all(line in shown.splitlines() for line in ("-one", "+two", "+new", "new file mode 100644"))
    assert git(made.path, "status", "--porcelain") == "?? sub/new.txt\n"  # looking changed nothing
    assert (list_worktrees(repository), summary(made)) == ([made], "2 files changed, 2 insertions(+), 1 deletion(-)")
    (repository / "mine.txt").write_text("not committed\n")
    assert merge(made) == "main"
    assert (repository / "sub" / "a.txt").read_text() == "two\n"
    assert (repository / "sub" / "new.txt").exists()
    assert (list_worktrees(repository), made.path.exists()) == ([], False)
    assert git(repository, "branch", "--list", "deep/*") == ""


@pytest.mark.slow
def test_a_conflict_changes_nothing(repository: Path) -> None:
    made, here = add_worktree(repository / "sub")
    (here / "a.txt").write_text("theirs\n")
    (repository / "sub" / "a.txt").write_text("mine\n")
    git(repository, "commit", "-qam", "Mine")
    with pytest.raises(Failure, match=f"both sides changed sub/a.txt; .*: git merge deep/{made.name}"):
        merge(made)
    assert git(repository, "status", "--porcelain") == ""
    assert (repository / "sub" / "a.txt").read_text() == "mine\n"
    drop(find_worktree(repository, made.name))
    assert list_worktrees(repository) == []
    with pytest.raises(Failure, match="there is no worktree"):
        find_worktree(repository, made.name)


@pytest.mark.slow
def test_nothing_that_the_agent_wrote_there_is_run(repository: Path, tmp_path: Path) -> None:
    made, _ = add_worktree(repository, "evil")
    effect = tmp_path / "effect"
    script = made.path / "hooks" / "pre-commit"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntouch {effect}\n")
    script.chmod(0o755)
    (script.parent / "post-merge").write_text(script.read_text())
    (script.parent / "post-merge").chmod(0o755)
    git(repository, "config", "core.hooksPath", "hooks")  # as tools for hooks set it: a folder of the worktree
    other = made.path / "other.git"
    git(tmp_path, "init", "-q", "--bare", str(other))
    git(other, "config", "core.fsmonitor", str(script))
    (made.path / ".git").write_text(f"gitdir: {other}\n")
    (made.path / ".gitattributes").write_text("* diff=evil\n")
    git(other, "config", "diff.evil.command", str(script))
    assert "pre-commit" in diff_of(made)
    assert merge(made) == "main"
    assert not effect.exists()


def test_without_a_repository_or_a_commit_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="git init makes one"):
        add_worktree(tmp_path)
    git(tmp_path, "init", "-q")
    with pytest.raises(Failure, match="no commit yet"):
        add_worktree(tmp_path)


@pytest.mark.slow
def test_a_task_works_in_its_worktree_until_it_is_merged(deep: Any) -> None:
    begin(deep.work)
    write = Call("write_file", {"path": "b.txt", "content": "made\n"})
    env = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    with OpenAIStub(Script(write, "Done.")) as stub:
        done = deep("run", "Write it.", *MODEL, "--worktree", env=stub.env).ok()
    assert not (deep.work / "b.txt").exists()
    [name] = {line.split()[1].rstrip(":") for line in done.err.splitlines() if line.startswith("worktree ")}
    assert f"{name}  1 file changed, 1 insertion(+)" in deep("worktree", "list").ok().out
    assert "+made" in deep("worktree", "diff", name).ok().out
    refused = deep("worktree", "merge", name)
    assert (refused.code, "merge it with --yes" in refused.err) == (2, True)
    assert f"merged {name} into" in deep("worktree", "merge", name, "--yes", env=env).ok().out
    assert (deep.work / "b.txt").read_text() == "made\n"
    assert deep("worktree", "list").ok().out.startswith("no worktrees")
    both = deep("run", "x", "--worktree", "--session", "s")
    assert both.code == 2


@pytest.mark.slow
def test_a_worktree_is_a_folder_of_its_own(deep: Any) -> None:
    (deep.work / "deep.toml").write_text("[agent.interrupt_on]\nexecute = false\n")
    begin(deep.work)
    deep("config", "trust", "--yes").ok()

    def run(*words: str) -> Any:
        with OpenAIStub(Script(Call("execute", {"command": "touch ran"}), "Done.")) as stub:
            return deep("run", "Do it.", *MODEL, *words, env=stub.env)

    assert run().code == 0
    assert (deep.work / "ran").exists()
    done = run("--worktree")
    assert done.code == 3, "its copy of the file is not trusted"
    [name] = {line.split()[1].rstrip(":") for line in done.err.splitlines() if line.startswith("worktree ")}
    [made] = (deep.environment.home / ".local" / "share" / "deep" / "worktrees").iterdir()
    assert name in made.name
    assert not (made / "ran").exists()
    sessions = json.loads(deep("sessions", "list", "--json").ok().out)["sessions"]
    assert {each["owner"] for each in sessions} == {folder_owner(str(place.resolve())) for place in (deep.work, made)}
    main, own = rules_of(str(deep.work)), rules_of(str(made.resolve()))
    assert main.file != own.file
    assert own.can_keep


@pytest.mark.slow
def test_a_chat_goes_to_a_worktree_and_comes_back_with_it(deep: Any) -> None:
    begin(deep.work)
    write = Call("write_file", {"path": "b.txt", "content": "made\n"})
    names = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    with (
        OpenAIStub(Script(write, "Done.", "Here.")) as stub,
        Terminal(deep, "chat", *MODEL, env={**stub.env, **names}) as chat,
    ):
        chat.say("/worktree")
        chat.expect("/worktree new begins a chat")
        chat.say("/worktree new fix")
        chat.expect("deep chat ")
        chat.say("Write it.")
        chat.see("    run it?")
        chat.type("y\r")
        chat.expect("Done.")
        assert not (deep.work / "b.txt").exists()
        chat.say("/worktree merge")
        chat.expect("+made")
        chat.expect("merge the worktree fix?")
        chat.type("n\r")
        chat.say("/worktree list")
        chat.expect("(this one)")
        chat.say("/worktree merge")
        chat.expect("merge the worktree fix?")
        chat.type("y\r")
        chat.expect("merged into")
        chat.say("Where are you?")
        chat.expect("Here.")
        chat.prompt()
        chat.type(CTRL_D)
        assert chat.end() == 0
    assert (deep.work / "b.txt").read_text() == "made\n"
