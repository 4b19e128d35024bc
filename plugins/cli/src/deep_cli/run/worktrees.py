"""Git worktrees of sessions: each is a branch `deep/NAME` in a folder of its own, which only git keeps a record of.

What an agent wrote in a worktree never decides what git runs: its `.git` file is not read, and no hook runs, because
a hook may be a file of the worktree.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deep_core.plugin_api import find_program, visible

from ..failure import USAGE, Failure

__all__ = ["Worktree", "add_worktree", "diff_of", "drop", "find_worktree", "list_worktrees", "merge", "summary"]

PREFIX = "deep/"
SECONDS = 300
"""Until git is given up."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


@dataclass(frozen=True)
class Worktree:
    """One worktree.

    Attributes:
        name: as people type it.
        path: its folder.
        main: the folder of the repository that it belongs to, and is merged into.
        git_dir: what git keeps of it.
        base: the commit that it began at.
    """

    name: str
    path: Path
    main: Path
    git_dir: Path
    base: str

    @property
    def branch(self) -> str:
        """Its branch."""
        return PREFIX + self.name


def add_worktree(folder: Path, name: str = "") -> tuple[Worktree, Path]:
    """Make a worktree at the commit that is checked out.

    Args:
        folder: a folder of a git repository.
        name: its name; without it, eight random digits.

    Returns:
        The worktree, and the folder in it that is `folder` there.

    Raises:
        Failure: the folder is in no repository, it has no commit, or git refuses.
    """
    from platformdirs import user_data_path

    name = name or secrets.token_hex(4)
    if not _NAME.fullmatch(name):
        raise Failure(f"{visible(name)} is no name of a worktree: letters, digits, - and _", USAGE)
    top, common = _repository(folder)
    base = _git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], folder, "this repository has no commit yet")
    # Beside the user's own data: in the project, every search would find its files twice.
    path = user_data_path("deep") / "worktrees" / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', top.name)[:40]}-{name}"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _git(["worktree", "add", "--quiet", "-b", PREFIX + name, str(path), base], folder)
    _git(["config", f"branch.{PREFIX}{name}.deepBase", base], folder)
    path = path.resolve()
    made = Worktree(name, path, _main(common, folder), _git_dir(common, path), base)
    here = path / folder.resolve().relative_to(top)
    here.mkdir(parents=True, exist_ok=True)  # a folder without a committed file
    return made, here


def list_worktrees(folder: Path) -> list[Worktree]:
    """Return the worktrees of sessions of a folder's repository. Raises Failure: it is in none."""
    _, common = _repository(folder)
    found: list[Worktree] = []
    for block in _git(["worktree", "list", "--porcelain"], folder).split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.splitlines():
            key, _, value = line.partition(" ")
            fields[key] = value
        branch = fields.get("branch", "").removeprefix("refs/heads/")
        path = Path(fields.get("worktree", ""))
        if branch.startswith(PREFIX) and path.is_dir():
            base = _git(["config", "--get", f"branch.{branch}.deepBase"], folder, fail=False)
            name = branch.removeprefix(PREFIX)
            if base:
                found.append(Worktree(name, path, _main(common, folder), _git_dir(common, path), base))
    return found


def find_worktree(folder: Path, name: str = "") -> Worktree:
    """Return a worktree by its name; without a name, the one that a folder is in.

    Raises:
        Failure: there is none.
    """
    found = list_worktrees(folder)
    if name:
        chosen = next((each for each in found if each.name == name), None)
    else:
        here = folder.resolve()
        chosen = next((each for each in found if here.is_relative_to(each.path)), None)
    if chosen is None:
        what = f"there is no worktree {visible(name)}" if name else "this folder is in no worktree of a session"
        raise Failure(f"{what}: deep worktree list shows them", USAGE)
    return chosen


def diff_of(worktree: Worktree, *how: str) -> str:
    """Return the diff of a worktree to the commit that it began at, with what is not committed. It changes nothing.

    Args:
        worktree: the worktree.
        how: options of `git diff`.
    """
    with tempfile.TemporaryDirectory(prefix="deep-") as place:
        index = {"GIT_INDEX_FILE": str(Path(place, "index"))}
        _in(worktree, ["read-tree", "HEAD"], index)
        _in(worktree, ["add", "-A"], index)
        # No program that an attribute of the worktree names makes this diff.
        return _in(worktree, ["diff", "--cached", "--no-ext-diff", "--no-textconv", *how, worktree.base], index)


def summary(worktree: Worktree) -> str:
    """Return how much a worktree changed, in few words."""
    return diff_of(worktree, "--shortstat").strip() or "nothing changed"


def merge(worktree: Worktree) -> str:
    """Commit what a worktree has, merge it into the branch of the main folder, and delete the worktree.

    Returns:
        The name of the branch that has it now.

    Raises:
        Failure: it cannot be merged; nothing was changed in the main folder, and the worktree stays.
    """
    _in(worktree, ["add", "-A"])
    if _in(worktree, ["status", "--porcelain"]):
        _in(worktree, ["commit", "--quiet", "--no-gpg-sign", "-m", f"Work of deep in the worktree {worktree.name}"])
    message = f"Merge the worktree {worktree.name}"
    try:
        _git(["merge", "--quiet", "--no-ff", "--no-gpg-sign", "-m", message, worktree.branch], worktree.main)
    except Failure as error:
        conflicts = _git(["diff", "--name-only", "--diff-filter=U"], worktree.main, fail=False).splitlines()
        if conflicts:
            _git(["merge", "--abort"], worktree.main, fail=False)
            names = ", ".join(map(visible, conflicts[:10]))
            how = f"git merge {worktree.branch}"
            raise Failure(f"both sides changed {names}; nothing was merged: merge it by hand: {how}") from error
        raise
    branch = _git(["rev-parse", "--abbrev-ref", "HEAD"], worktree.main)
    drop(worktree)
    return branch


def drop(worktree: Worktree) -> None:
    """Delete a worktree and its branch, with all that is in it."""
    # `git worktree remove` refuses where the agent changed the `.git` file.
    try:
        shutil.rmtree(worktree.path)
    except OSError as error:
        raise Failure(f"{visible(str(worktree.path))} cannot be deleted: {error.strerror or error}") from error
    _git(["worktree", "prune"], worktree.main)
    _git(["branch", "--quiet", "-D", worktree.branch], worktree.main)


# -- git ---------------------------------------------------------------------------------------------------------------


def _repository(folder: Path) -> tuple[Path, Path]:
    """Return the top of the working tree that a folder is in, and the directory of its repository."""
    why = f"{visible(str(folder))} is in no git repository: git init makes one"
    top = _git(["rev-parse", "--show-toplevel"], folder, why)
    common = _git(["rev-parse", "--path-format=absolute", "--git-common-dir"], folder, why)
    return Path(top).resolve(), Path(common)


def _main(common: Path, folder: Path) -> Path:
    """Return the folder of the repository's main working tree."""
    first = _git(["worktree", "list", "--porcelain"], folder).partition("\n")[0]
    return Path(first.removeprefix("worktree ")) if first.startswith("worktree ") else common.parent


def _git_dir(common: Path, path: Path) -> Path:
    """Return what the repository keeps of a worktree, as the repository says it."""
    for each in common.glob("worktrees/*/gitdir"):
        if Path(each.read_text(encoding="utf-8").strip()).parent.resolve() == path.resolve():
            return each.parent
    raise Failure(f"git does not know the worktree {visible(str(path))}: git worktree repair {visible(str(path))}")


def _in(worktree: Worktree, words: Sequence[str], more: Mapping[str, str] | None = None) -> str:
    # Not by its `.git` file: the agent can write that.
    place = [f"--git-dir={worktree.git_dir}", f"--work-tree={worktree.path}"]
    return _git([*place, *words], worktree.path, more=more)


def _git(
    words: Sequence[str], folder: Path, why: str = "", *, fail: bool = True, more: Mapping[str, str] | None = None
) -> str:
    """Run git, and return what it printed.

    Raises:
        Failure: there is no git, or it failed: with `why`, or its last line.
    """
    program = find_program("git", outside=str(folder))
    if program is None:
        raise Failure("worktrees need git: install it", USAGE)
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(more or {})}
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        if name in os.environ:
            env[name] = os.environ[name]
    try:
        done = subprocess.run(
            [program, *_QUIET, *words],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"git {words[0]} did not end in {SECONDS} seconds") from error
    if done.returncode and fail:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise Failure(why or f"git: {visible(lines[-1])}", USAGE if why else 1)
    return "" if done.returncode else done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")
