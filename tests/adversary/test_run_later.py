"""Programs that run later: nothing that a command in `sandbox` leaves runs outside, and the tools for files ask."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from deep_backends import SandboxBackend, part_that_runs, reason_of

from tests.drawn import sample

MARK = "ran_outside"
EVIL = "printf '#!/bin/sh\\ntouch {mark}\\n' > e.sh; chmod +x e.sh; E=$PWD/e.sh; "
PREPARED = """
git init -q -b main .; git config user.name a; git config user.email a@b; echo x > f; git add f; git commit -qm x
git branch other; git init -q -b main ../lib.git; cd ../lib.git; git config user.name a; git config user.email a@b
echo y > g; git add g; git commit -qm y; cd ../repo
"""
SUBMODULE = PREPARED + "git -c protocol.file.allow=always submodule add -q ../lib.git sub; git commit -qm sub"
TERMINAL = "python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])'"
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
    "a file that was included": (
        PREPARED + "touch shared; git config include.path ../shared",
        'printf "[core]\\n fsmonitor = $E\\n" > shared',
        "git status",
    ),
    "a file that is included where there was none": (
        PREPARED + "git config include.path ../shared",
        'printf "[core]\\n fsmonitor = $E\\n" > shared',
        "git status",
    ),
    "a file that was included for some folders": (
        PREPARED + "mkdir c; touch c/shared; git config includeIf.gitdir:/.path $PWD/c/shared",
        'printf "[core]\\n fsmonitor = $E\\n" > c/shared',
        "git status",
    ),
    "a file that is included by one that was": (
        PREPARED + "printf '[include]\\n path = more\\n' > shared; git config include.path ../shared",
        'printf "[core]\\n fsmonitor = $E\\n" > more',
        "git status",
    ),
    "a program that was named": (
        PREPARED
        + "mkdir t; printf '#!/bin/sh\\ncat\\n' > t/clean; chmod +x t/clean; git config filter.x.clean t/clean; "
        "echo '* filter=x' > .gitattributes",
        "cp e.sh t/clean; echo z >> f",
        "git add f",
    ),
    "a program that was named with arguments": (
        PREPARED
        + "mkdir t; touch t/conv; git config diff.x.textconv 'sh ./t/conv -x'; echo '* diff=x' > .gitattributes",
        "cp e.sh t/conv; echo z >> f",
        "git diff",
    ),
    "an alias": (PREPARED, "git config alias.st '!'$E", "git st"),
    "an include": (
        PREPARED,
        'printf "[core]\\n fsmonitor = $E\\n" > inc; git config include.path $PWD/inc',
        "git status",
    ),
    "a pager": (PREPARED, "git config core.pager $E", f"PAGER=cat {TERMINAL} git log -1"),
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
        "mkdir t; mkdir t/hooks; cp e.sh t/hooks/pre-commit; git init -q --template=t .",
        "git -c user.name=a -c user.email=a@b commit --allow-empty -qm x",
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
    "a submodule's update": (
        SUBMODULE,
        "git config submodule.sub.update '!'$E",
        "git -C sub -c user.name=a -c user.email=a@b commit --allow-empty -qm z; git submodule update",
    ),
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
    "commondir to packages that are not looked at": (
        PREPARED,
        "mkdir node_modules; cp -r .git node_modules/c; git config -f node_modules/c/config core.fsmonitor $E; "
        "echo ../node_modules/c > .git/commondir",
        "git status",
    ),
    **{
        f".git as a file to {place}, which is not looked at": (
            PREPARED,
            f"cp -r .git g; mkdir -p {place} w; mv g {place}/g; git config -f {place}/g/config core.fsmonitor $E; "
            f"{extra} echo gitdir: $PWD/{place}/g > w/.git",
            "cd w; git status",
        )
        for place, extra in {
            "node_modules": "",
            "a/__pycache__": "",
            "env/lib/site-packages": "",
            ".git/objects": "",
            ".git/refs": "",
            ".git/logs": "",
            "x/objects": "touch x/HEAD; mkdir x/refs;",
        }.items()
    },
    "hooks as a link where there were none": (
        PREPARED + "rm -rf .git/hooks",
        "mkdir h; cp e.sh h/post-checkout; ln -s ../h .git/hooks",
        "git checkout -q other",
    ),
    "what a link of hooks leads to": (
        PREPARED + "rm -rf .git/hooks; mkdir h; ln -s ../h .git/hooks",
        "cp e.sh h/post-checkout",
        "git checkout -q other",
    ),
    "a rebase behind a link": (
        PREPARED,
        "GIT_SEQUENCE_EDITOR=true git rebase -q -i --root --exec false; mv .git/rebase-merge r; "
        'echo "exec $E" >> r/git-rebase-todo; ln -s ../r .git/rebase-merge',
        "GIT_EDITOR=true git rebase --continue",
    ),
    "a folder that says it is an environment": (
        "mkdir src",
        "touch src/pyvenv.cfg; cp e.sh src/.envrc",
        "cd src; [ -f .envrc ] && sh .envrc",
    ),
    "a repository in such a folder": (
        PREPARED + "mkdir src",
        "touch src/pyvenv.cfg; cp -r .git src; git config -f src/.git/config core.fsmonitor $E",
        "cd src; git status",
    ),
    "a link to packages with a repository": (
        PREPARED,
        "mkdir -p node_modules/x; cp -r .git node_modules/x; git config -f node_modules/x/.git/config core.fsmonitor $E; "
        "ln -s node_modules/x w",
        "cd w; git status",
    ),
    "a link to objects with a repository": (
        PREPARED,
        "cp -r .git g; mkdir .git/objects/x; mv g .git/objects/x/.git; "
        "git config -f .git/objects/x/.git/config core.fsmonitor $E; ln -s .git/objects/x w",
        "cd w; git status",
    ),
    "beside a path that is too long": (
        PREPARED,
        "cp -r .git g; git config -f g/config core.fsmonitor $E; echo ../g > .git/commondir; "
        'python3 -c \'import os; [(os.mkdir("d" * 200), os.chdir("d" * 200)) for _ in range(30)]\'',
        "git status",
    ),
    "in a folder that cannot be listed": (
        PREPARED,
        "cp -r .git g; git config -f g/config core.fsmonitor $E; echo ../g > .git/commondir; chmod 0311 .git",
        "git status; chmod 755 .git",
    ),
    "a worktree of a folder that shares": (
        PREPARED,
        "mkdir x x/objects x/refs x/worktrees x/worktrees/y w; cp .git/HEAD .git/index x/worktrees/y; "
        "cp .git/config x/config; git config -f x/config core.fsmonitor $E; echo ../.. > x/worktrees/y/commondir; "
        "echo $PWD/w/.git > x/worktrees/y/gitdir; echo gitdir: $PWD/x/worktrees/y > w/.git",
        "cd w; git status",
    ),
    "a worktree of a bare repository": (
        PREPARED + "git clone -q --bare . b.git",
        "git -C b.git worktree add -q ../w other; git -C b.git config core.fsmonitor $E",
        "cd w; git status",
    ),
    "a linked folder of worktrees": (
        PREPARED,
        "mkdir x x/objects x/refs x/deep x/deep/y w; ln -s deep x/worktrees; cp .git/HEAD .git/index x/deep/y; "
        "cp .git/config x/config; git config -f x/config core.fsmonitor $E; echo ../.. > x/deep/y/commondir; "
        "echo $PWD/w/.git > x/deep/y/gitdir; echo gitdir: $PWD/x/worktrees/y > w/.git",
        "cd w; git status",
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
each_escape = pytest.mark.parametrize("name", sample(ESCAPES, *[*ESCAPES][::4], slow=ESCAPES))


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


@each_escape
def test_each_row_is_an_escape_where_nothing_confines(name: str, repo: Path) -> None:
    before, command, after = ESCAPES[name]
    _outside(before, repo)
    mark = repo.parent / MARK
    _outside(EVIL.format(mark=mark) + command, repo)
    mark.unlink(missing_ok=True)  # git itself may run it in the command
    _outside(after, repo)
    assert mark.exists()


@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
@each_escape
def test_nothing_that_a_command_leaves_runs_outside(name: str, repo: Path) -> None:
    before, command, after = ESCAPES[name]
    _outside(before, repo)
    mark = repo.parent / MARK
    asyncio.run(SandboxBackend(repo).run(EVIL.format(mark=mark) + command, shell=True, timeout=60))
    assert not mark.exists()
    _outside(after, repo)
    assert not mark.exists()


@pytest.mark.needs("bubblewrap")
def test_what_a_configuration_of_git_mentions_and_does_not_start_may_change(repo: Path) -> None:
    lines = ("alias.l '!cat README'", "blame.ignoreRevsFile revs", "commit.template tell", "diff.x.textconv 'cat src'")
    _outside(
        f"{PREPARED}mkdir src; touch README revs tell src/a; {'; '.join(f'git config {line}' for line in lines)}",
        repo,
    )
    done = asyncio.run(SandboxBackend(repo).run("for f in README revs tell src/a; do echo x > $f; done", shell=True))
    assert "sandboxed" not in done.stderr
    assert [(repo / name).read_text() for name in ("README", "revs", "tell", "src/a")] == ["x\n"] * 4


NAMES = dict.fromkeys((".git/config", "sub/.git/hooks/x", ".GIT/config", ".envrc", "a/.ENVRC", ".devcontainer.json", ".devcontainer/x/y", "lefthook.yml", "lefthook.toml", ".lefthook-local.json", "mise.toml", ".mise.local.toml", ".config/mise/config.toml", ".mise/config.toml", ".bashrc", "home/.zshenv", ".config/fish/config.fish", ".vscode/tasks.json", ".idea/x.xml", ".zed/tasks.json", "x.code-workspace", "conftest.py", "tests/a/conftest.py", "sitecustomize.py", "usercustomize.py", "lib/x.pth", "package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", ".husky/pre-commit", ".pre-commit-config.yaml", ".github/workflows/x.yml", ".gitlab-ci.yml", ".circleci/config.yml", ".cargo/config.toml", ".vimrc", ".dir-locals.el", ".gdbinit", ".mcp.json", ".claude/settings.json", ".hg/hgrc", ".jj/repo/config.toml", ".ssh/config", ".direnv/x", ".githooks/pre-commit", ".gitconfig", ".config/git/config", ".mise.production.toml", "mise/config.toml", "sitecustomize/__init__.py", "sitecustomize.pyc", "usercustomize.cpython-311-x86_64-linux-gnu.so", ".lintstagedrc.js", ".huskyrc", "lint-staged.config.mjs", "prek.toml", "flake.nix", "composer.json", "rust-toolchain.toml", ".helix/languages.toml", ".yarn/releases/yarn.cjs", ".pnp.cjs", "binding.gyp", ".github/actions/x/action.yml", ".gitea/workflows/x.yml", "bitbucket-pipelines.yml", "jupyter_server_config.py", ".pdbrc", "sub/.ghci", "opencode.json", ".gemini/settings.json", "ansible.cfg", ".mvn/jvm.config", "gradle/wrapper/gradle-wrapper.properties", ".aws/config", ".config/systemd/user/x.service", ".zsh/x"), True) | dict.fromkeys(("README.md", "a.py", "git/config", ".github/CODEOWNERS", "vscode/tasks.json", "x.json", ".gitignore", "mise/README.md", "src/mise.py", "commise.toml", "sitecustom.py", ".yarn/cache/x", "docs/aws/x", "gradle/x.py", ".gradle/x"), False)  # fmt: skip


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
