"""Programs that run later: nothing that a command in `sandbox` leaves runs outside, and the tools for files ask."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from deep_backends import SandboxBackend, part_that_runs, reason_of

MARK = "ran_outside"
EVIL = "printf '#!/bin/sh\\ntouch {mark}\\n' > e.sh; chmod +x e.sh; E=$PWD/e.sh; "
PREPARED = """
git init -q -b main .; git config user.name a; git config user.email a@b; echo x > f; git add f; git commit -qm x
git branch other; git init -q -b main ../lib.git; cd ../lib.git; git config user.name a; git config user.email a@b
echo y > g; git add g; git commit -qm y; cd ../repo
"""
SUBMODULE = PREPARED + "git -c protocol.file.allow=always submodule add -q ../lib.git sub; git commit -qm sub"
WORKTREE = PREPARED + "git worktree add -q wt other"

# The commands are as long as they are.
# ruff: noqa: E501
ESCAPES: dict[str, tuple[str, str, str]] = {
    # name: what there was, what the command does, what the person does next
    "fsmonitor": (PREPARED, "git config core.fsmonitor $E", "git status"),
    "fsmonitor by hand": (PREPARED, 'printf "[core]\\n\\tfsmonitor = $E\\n" >> .git/config', "git status"),
    "fsmonitor in a new file": (PREPARED, 'printf "[core]\\n fsmonitor = $E\\n" > c && mv c .git/config', "git status"),
    "a hook": (PREPARED, "cp e.sh .git/hooks/post-checkout", "git checkout -q other"),
    "a hook in new hooks": (
        PREPARED,
        "mv .git/hooks h; mkdir .git/hooks; cp e.sh .git/hooks/post-checkout",
        "git checkout -q other",
    ),
    "a hook as a link": (PREPARED, "ln -s ../../e.sh .git/hooks/post-checkout", "git checkout -q other"),
    "hooks elsewhere": (
        PREPARED,
        "mkdir h; cp e.sh h/post-checkout; git config core.hooksPath h",
        "git checkout -q other",
    ),
    "hooks that were elsewhere": (
        PREPARED + "mkdir h; git config core.hooksPath h",
        "cp e.sh h/post-checkout",
        "git checkout -q other",
    ),
    "an alias": (PREPARED, "git config alias.st '!'$E", "git st"),
    "an include": (
        PREPARED,
        'printf "[core]\\n fsmonitor = $E\\n" > inc; git config include.path $PWD/inc',
        "git status",
    ),
    "a pager": (PREPARED, "git config core.pager $E; git config pager.status true", "git -p log"),
    "an editor": (PREPARED, "git config core.editor $E", "git commit --allow-empty"),
    "a diff program": (PREPARED, "git config diff.external $E; echo z >> f", "git diff"),
    "a filter": (
        PREPARED,
        "git config filter.x.clean $E; echo '* filter=x' > .gitattributes; echo z >> f",
        "git add f",
    ),
    "a text conversion": (
        PREPARED,
        "git config diff.x.textconv $E; echo '* diff=x' > .git/info/attributes; echo z >> f",
        "git diff",
    ),
    "a credential helper": (
        PREPARED,
        "git config credential.helper '!'$E",
        "echo url=https://x.invalid | git credential fill",
    ),
    "an ssh command": (PREPARED, "git config core.sshCommand $E; git remote add o ssh://x.invalid/y", "git fetch o"),
    "an upload-pack": (PREPARED, "git remote add o ../lib.git; git config remote.o.uploadpack $E", "git fetch o"),
    "an external protocol": (
        PREPARED,
        'git config protocol.ext.allow always; git remote add o "ext::$E"',
        "git fetch o",
    ),
    "commondir": (
        PREPARED,
        "cp -r .git c; rm -rf c/hooks; git config -f c/config core.fsmonitor $E; echo ../c > .git/commondir",
        "git status",
    ),
    "commondir without blanks": (
        PREPARED,
        "cp -r .git c; git config -f c/config core.fsmonitor $E; printf ../c > .git/commondir",
        "git status",
    ),
    "a configuration of the worktree": (
        PREPARED,
        "git config extensions.worktreeConfig true; git config -f .git/config.worktree core.fsmonitor $E",
        "git status",
    ),
    "another .git": (
        PREPARED,
        "cp -r .git g; git config -f g/config core.fsmonitor $E; mv .git old; mv g .git",
        "git status",
    ),
    ".git as a file": (
        PREPARED,
        "cp -r .git g; git config -f g/config core.fsmonitor $E; mv .git old; echo 'gitdir: g' > .git",
        "git status",
    ),
    ".git as a link": (
        PREPARED,
        "cp -r .git g; git config -f g/config core.fsmonitor $E; mv .git old; ln -s g .git",
        "git status",
    ),
    "no .git before": ("true", "git init -q .; git config core.fsmonitor $E", "git status"),
    "a template": (
        "true",
        "mkdir t; mkdir t/hooks; cp e.sh t/hooks/post-checkout; git init -q --template=t .",
        "git checkout -qb x",
    ),
    "a repository below": (
        PREPARED,
        "git init -q below; git -C below config core.fsmonitor $E",
        "cd below; git status",
    ),
    "a bare repository below": (
        PREPARED,
        "git init -q --bare b; git -C b config core.bare false; git -C b config core.worktree $PWD; git -C b config core.fsmonitor $E",
        "cd b; git status",
    ),
    "a clone below": (PREPARED, "git clone -q . below -c core.fsmonitor=$E", "cd below; git status"),
    "a submodule's configuration": (SUBMODULE, "git -C sub config core.fsmonitor $E", "git status; cd sub; git status"),
    "a submodule's hook": (SUBMODULE, "cp e.sh .git/modules/sub/hooks/post-checkout", "cd sub; git checkout -qb x"),
    "a submodule's .git": (
        SUBMODULE,
        "cp -r .git/modules/sub g; git config -f g/config core.fsmonitor $E; git config -f g/config core.worktree $PWD/sub; echo 'gitdir: ../g' > sub/.git",
        "git status; cd sub; git status",
    ),
    "a submodule's update": (SUBMODULE, "git config submodule.sub.update '!'$E", "git submodule update"),
    "a worktree's commondir": (
        WORKTREE,
        "cp -r .git g; git config -f g/config core.fsmonitor $E; echo ../../../g > .git/worktrees/wt/commondir",
        "cd wt; git status",
    ),
    "a worktree's .git": (
        WORKTREE,
        "cp -r .git g; git config -f g/config core.fsmonitor $E; echo 'gitdir: ../g' > wt/.git",
        "cd wt; git status",
    ),
    "a rebase that goes on": (
        PREPARED,
        "GIT_SEQUENCE_EDITOR=true git rebase -q -i --root --exec false; "
        'echo "exec $E" >> .git/rebase-merge/git-rebase-todo',
        "GIT_EDITOR=true git rebase --continue",
    ),
    "direnv": ("true", "cp e.sh .envrc", "[ -f .envrc ] && sh .envrc"),
    "a start file": ("true", "cp e.sh .bashrc", "[ -f .bashrc ] && sh .bashrc"),
    "pytest": (
        "true",
        "mkdir t; echo \"import os; os.system('$E')\" > t/conftest.py",
        "[ -f t/conftest.py ] && sh e.sh",
    ),
    "scripts of a package": (
        'echo \'{"name": "x"}\' > package.json',
        'echo \'{"scripts": {"prepare": "./e.sh"}}\' > package.json',
        "grep -q prepare package.json && sh e.sh",
    ),
    "an existing file": ("echo true > .gitlab-ci.yml", "cp e.sh .gitlab-ci.yml", "sh .gitlab-ci.yml"),
    "a link": ("true", "ln -s e.sh .envrc", "[ -e .envrc ] && sh .envrc"),
    "a renamed folder": (
        "mkdir d; echo '{}' > d/tasks.json",
        "cp e.sh d/tasks.json; mv d .vscode",
        "[ -f .vscode/tasks.json ] && sh e.sh",
    ),
}


def _outside(command: str, folder: Path) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ""}
    env |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    env.pop("GIT_EDITOR")
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, env=env, timeout=60, check=False
    )
    return done.stdout + done.stderr


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    return folder


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_that_a_command_leaves_runs_outside(name: str, repo: Path) -> None:
    before, command, after = ESCAPES[name]
    _outside(before, repo)
    mark = repo.parent / MARK
    asyncio.run(SandboxBackend(repo).run(EVIL.format(mark=mark) + command, shell=True, timeout=60))
    assert not mark.exists()
    _outside(after, repo)
    assert not mark.exists()


GIT = """
git init -q -b main a; cd a; git config user.name a; git config user.email a@b; for i in 1 2 3; do echo $i > f$i; git add -A; git commit -qm $i; done
cd ..; git clone -q a b; cd b; git config user.name a; git config user.email a@b
"""
OPERATIONS = """
git status; git add -A; git diff --cached; git log --oneline; git show HEAD; git branch one; git checkout -q one; echo 4 > f4
git add f4; git commit -qm four; git commit --amend -qm four-again; git tag v1; git tag -a v2 -m two; git checkout -q main
git merge -q --no-ff one -m merged; git rebase -q HEAD~1; git cherry-pick v1 || git cherry-pick --abort || true; git stash list
echo z >> f1; git stash -q; git stash pop -q; git checkout -q -- f1; git reset -q --soft HEAD~1; git commit -qm again; git revert --no-edit HEAD
git worktree add -q ../wt one; cd ../wt; echo w > w; git add w; git commit -qm w; git status; cd ../b; git worktree list
git worktree remove ../wt; git worktree prune; git fsck --no-dangling; git reflog; git notes add -m note HEAD; git gc -q; git repack -qad
git mv f2 g2; git commit -qm moved; git rm -q g2; git commit -qm gone; git clean -fdq; git bisect start; git bisect reset
git archive HEAD -o ../x.tar; rm ../x.tar; git describe --tags --always; git rev-parse HEAD; git ls-files; git grep -q 1 || true; git blame f1
git checkout -q --detach; git checkout -q main; git branch -D one; git fetch -q; git pull -q --rebase; git submodule update --init
git switch -q -c two; git restore f1; git update-index --refresh; git write-tree; git count-objects; git pack-refs --all; git prune
"""


@pytest.mark.needs("bubblewrap")
def test_git_works_in_the_sandbox_in_one_command_and_in_many(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    backend = SandboxBackend(folder)
    steps = [step.strip() for step in OPERATIONS.replace("\n", ";").split(";") if step.strip()]

    async def work() -> int:
        done = await backend.run(f"set -e;{GIT}", shell=True, timeout=60)
        assert (done.exit_code, "sandboxed" in done.stderr) == (0, False), done.stderr
        place = "b"
        for step in steps:
            if step.startswith("cd "):
                place = os.path.normpath(f"{place}/{step[3:]}")
                continue
            done = await backend.run(f"cd {place} && {{ {step}; }}", shell=True, timeout=60)
            assert (done.exit_code, "sandboxed" in done.stderr) == (0, False), f"{step}: {done.stderr}"
        # In a repository that was there before, at the top: with a submodule, and all in one command.
        done = await backend.run(
            "git clone -q a c; cd c; git config user.name a; git config user.email a@b; git -c protocol.file.allow=always submodule add -q ../a sub; git commit -qm sub; cd ..; git -c protocol.file.allow=always clone -q --recurse-submodules c d; cd d; git submodule update --recursive; git submodule status",
            shell=True,
            timeout=60,
        )
        assert (done.exit_code, "sandboxed" in done.stderr) == (0, False), done.stderr
        top = SandboxBackend(folder / "d")
        more = [
            "git submodule update",
            "git submodule foreach git status",
            "git checkout -q -b top",
            "git commit -q --allow-empty -m e",
            "git rebase -q HEAD~1",
            "git worktree add -q wt",
            "git worktree remove wt",
            "git gc -q",
            "cd sub && git checkout -q -b x && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m y",
        ]
        for step in more:
            done = await top.run(
                f"export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; {step}",
                shell=True,
                timeout=60,
            )
            assert (done.exit_code, "sandboxed" in done.stderr) == (0, False), f"{step}: {done.stderr}"
        return len(steps) + len(more)

    assert asyncio.run(work()) >= 70
    shutil.rmtree(folder)


NAMES = dict.fromkeys((".git/config", "sub/.git/hooks/x", ".GIT/config", ".envrc", "a/.ENVRC", ".devcontainer.json", ".devcontainer/x/y", "lefthook.yml", "lefthook.toml", ".lefthook-local.json", "mise.toml", ".mise.local.toml", ".config/mise/config.toml", ".mise/config.toml", ".bashrc", "home/.zshenv", ".config/fish/config.fish", ".vscode/tasks.json", ".idea/x.xml", ".zed/tasks.json", "x.code-workspace", "conftest.py", "tests/a/conftest.py", "sitecustomize.py", "usercustomize.py", "lib/x.pth", "package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", ".husky/pre-commit", ".pre-commit-config.yaml", ".github/workflows/x.yml", ".gitlab-ci.yml", ".circleci/config.yml", ".cargo/config.toml", ".vimrc", ".dir-locals.el", ".gdbinit", ".mcp.json", ".claude/settings.json", ".hg/hgrc", ".jj/repo/config.toml", ".ssh/config", ".direnv/x"), True) | dict.fromkeys(("README.md", "a.py", "git/config", ".github/CODEOWNERS", "vscode/tasks.json", "x.json", ".gitignore"), False)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_table_knows_what_runs_later(name: str) -> None:
    assert (reason_of(name) is not None) is NAMES[name]


@pytest.mark.parametrize(
    ("content", "runs"),
    [
        (b'{"name": "x"}', False),
        (b'{"scripts": {}}', False),
        (b"", False),
        (b'{"scripts": {"a": "b"}}', True),
        (b'{"husky": {"hooks": {}}}', True),
        (b"{", True),
        (b"[]", True),
        (b'{"a":' * 100_000, True),
    ],
)
def test_of_a_package_its_scripts_run(content: bytes, runs: bool) -> None:
    assert bool(part_that_runs("a/package.json", content)) is runs
