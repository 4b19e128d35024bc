"""What runs later by itself: at the next git command, at the next `cd`, at the next start of a program. One table.

The file tools ask before they write it, and the backend `sandbox` compares it before and after a command. Only what
runs although the user did not choose it by name: a Makefile or a script is not here.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from .git_config import lines_that_run

__all__ = ["FILES", "FOLDERS", "GIT", "LINK", "Found", "part_that_runs", "reason_of", "survey"]

GIT = "git runs its hooks, and the programs that its configuration names"
FOLDERS = {
    ".git": GIT,
    ".hg": "Mercurial runs the hooks that its configuration names",
    ".jj": "Jujutsu runs the programs that its configuration names",
    ".husky": "git runs its hooks, once husky is installed",
    ".githooks": "git runs its hooks, once core.hooksPath names it",
    ".vscode": "the editor runs its tasks and uses the programs that its settings name",
    ".idea": "the editor runs its configurations",
    ".fleet": "the editor runs its configurations",
    ".zed": "the editor runs its tasks and uses the programs that its settings name",
    **dict.fromkeys((".helix", ".nova", ".vs", ".externaltoolbuilders"), "the editor starts what it names"),
    ".devcontainer": "the editor runs its commands",
    ".direnv": "direnv reads it when you enter the folder",
    ".mise": "mise runs its hooks when you enter the folder",
    ".config/mise": "mise runs its hooks when you enter the folder",
    **dict.fromkeys(
        (".config/fish", ".config/nushell", ".config/environment.d", ".zsh"), "the shell runs it at its start"
    ),
    **dict.fromkeys((".config/nvim", ".vim", ".emacs.d"), "the editor runs it"),
    ".config/git": GIT,
    **dict.fromkeys((".config/systemd", ".config/autostart"), "the system starts the programs that it names"),
    ".ssh": "ssh runs the commands that its configuration names",
    **dict.fromkeys((".aws", ".kube", ".docker", ".gnupg"), "its programs run the helpers that it names"),
    ".cargo": "cargo runs the programs that its configuration names",
    ".mvn": "Maven starts what it names",
    **dict.fromkeys((".yarn/releases", ".yarn/plugins"), "yarn runs it at every start"),
    **dict.fromkeys(("sitecustomize", "usercustomize"), "Python runs it at every start"),
    ".claude": "Claude Code runs its hooks",
    **dict.fromkeys(
        (
            ".cursor",
            ".windsurf",
            ".gemini",
            ".codex",
            ".opencode",
            ".kiro",
            ".roo",
            ".continue",
            ".amazonq",
        ),
        "the agent starts the servers that it names",
    ),
    **dict.fromkeys(
        (".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows"),
        "the server runs it, with the secrets of the repository",
    ),
    **dict.fromkeys((".circleci", ".gitlab/ci", ".buildkite", ".woodpecker"), "a server runs it, with its secrets"),
}
"""Why writing anything in a folder of this name asks."""
CONFIGS = (".js", ".cjs", ".mjs", ".ts", ".json", ".yml", ".yaml")
"""How a configuration of JavaScript's tools may end."""
FILES = {
    ".envrc": "direnv runs it when you enter the folder",
    **dict.fromkeys(("mise.toml", ".rtx.toml"), "mise runs its hooks when you enter the folder"),
    **dict.fromkeys(
        (".pre-commit-config.yaml", ".pre-commit-config.yml"), "git runs what it names, once pre-commit is installed"
    ),
    **dict.fromkeys(
        (
            f"{dot}lefthook{local}.{end}"
            for dot in ("", ".")
            for local in ("", "-local")
            for end in ("yml", "yaml", "toml", "json")
        ),
        "git runs what it names, once lefthook is installed",
    ),
    **dict.fromkeys(
        (
            ".overcommit.yml",
            "captainhook.json",
            "prek.toml",
            *(f"{name}{end}" for name in (".huskyrc", ".lintstagedrc", ".simple-git-hooks") for end in ("", *CONFIGS)),
            *(f"{name}{end}" for name in ("lint-staged.config", "commitlint.config") for end in CONFIGS),
        ),
        "git runs what it names",
    ),
    ".gitconfig": GIT,
    **dict.fromkeys(
        (".npmrc", ".pnpmfile.cjs", ".pnpmfile.mjs", "bunfig.toml", "binding.gyp"),
        "npm and its kin run the programs that it names",
    ),
    **dict.fromkeys((".yarnrc", ".yarnrc.yml", ".pnp.cjs", ".pnp.loader.mjs"), "yarn runs the programs that it names"),
    "package.json": "npm and its kin run its scripts",
    "composer.json": "composer runs its scripts",
    **dict.fromkeys(("rust-toolchain", "rust-toolchain.toml"), "rustup runs the compiler that it names"),
    **dict.fromkeys(
        ("gradle.properties", "gradle-wrapper.properties", ".sbtopts", ".jvmopts", "ansible.cfg"),
        "the build starts what it names",
    ),
    **dict.fromkeys(
        ("flake.nix", "shell.nix", "devenv.nix", "devbox.json"),
        "direnv runs it when you enter the folder, if .envrc uses it",
    ),
    "conftest.py": "pytest runs it",
    **dict.fromkeys((".pdbrc", ".ghci", ".ocamlinit", ".octaverc", ".iex.exs"), "the interpreter runs it at its start"),
    **dict.fromkeys(
        (f"jupyter{name}_config{end}" for name in ("", "_server", "_notebook", "_lab") for end in (".py", ".json")),
        "Jupyter runs it at its start",
    ),
    **dict.fromkeys(
        (
            ".profile",
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".bash_completion",
            ".xprofile",
            ".xinitrc",
            ".autoenv.zsh",
            ".kshrc",
            ".login",
            ".cshrc",
        ),
        "the shell runs it at its start",
    ),
    **dict.fromkeys((".zshenv", ".zprofile", ".zshrc", ".zlogin", ".zlogout"), "the shell runs it at its start"),
    ".devcontainer.json": "the editor runs its commands",
    **dict.fromkeys(
        (".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".gvimrc", ".lvimrc", ".emacs", ".dir-locals.el"),
        "the editor runs it",
    ),
    **dict.fromkeys((".gdbinit", ".lldbinit"), "the debugger runs it at its start"),
    **dict.fromkeys((".rprofile", ".irbrc", ".pryrc"), "the interpreter runs it at its start"),
    ".bazelrc": "bazel runs the programs that it names",
    **dict.fromkeys(
        (".mcp.json", "opencode.json", "opencode.jsonc", "crush.json", ".crush.json", ".aider.conf.yml"),
        "agents start the programs that it names",
    ),
    **dict.fromkeys(
        (
            ".gitlab-ci.yml",
            ".travis.yml",
            "jenkinsfile",
            "azure-pipelines.yml",
            ".drone.yml",
            ".woodpecker.yml",
            ".woodpecker.yaml",
            ".cirrus.yml",
            "bitbucket-pipelines.yml",
            "appveyor.yml",
            ".appveyor.yml",
            "cloudbuild.yaml",
            "buildspec.yml",
            ".build.yml",
        ),
        "a server runs it, with the secrets of the repository",
    ),
}
"""Why writing a file of this name asks. In small letters: some file systems ignore case."""
STEMS = {"sitecustomize": "Python runs it at every start", "usercustomize": "Python runs it at every start"}
"""Why writing a file whose name begins so asks: also byte code, and a library."""
ENDINGS = {
    ".pth": "Python runs it at every start, in a folder of packages",
    ".code-workspace": "the editor runs its tasks and uses the programs that its settings name",
}
"""Why writing a file with this ending asks."""
SCRIPTS = ("scripts", "husky", "lint-staged", "simple-git-hooks", "gitHooks", "pre-commit", "packageManager")
"""The keys of a package.json that name programs."""
OF_GIT = (".git", "config", "config.worktree", "commondir", "git-rebase-todo")
"""Files of a repository that may name a program, or lead to others."""
SKIPPED = ("node_modules", "__pycache__", "site-packages", "dist-packages")
"""Folders that hold packages, whose files are all of them programs."""
DATA = ("objects", "refs", "logs", "lfs")
"""Folders of a repository that only git itself reads."""
LINK = b"link to "
MOST_BYTES = 1_000_000
INCLUDED, HOOKS = "include of ", "hooks in "
_ONLY_DATA = re.compile(r"^alias\.|file$|template$")
"""Keys of a configuration whose values name no program that git starts by itself."""
MOST_NAMED = 1_000
"""Files of one folder that a configuration of git names."""
_WORDS = re.compile(r"[\s=,;|&<>()\"'`]+")


def reason_of(path: str) -> str | None:
    """Why a path is of a file that runs by itself, or None. Ignores case, as some file systems do."""
    folded = path.casefold().strip("/")
    within = f"/{folded}/"
    for folder, reason in FOLDERS.items():
        if f"/{folder}/" in within:
            return reason
    name = folded.rpartition("/")[2]
    if re.fullmatch(r"\.?mise(\.[\w-]+)*\.toml", name) or within.endswith("/mise/config.toml/"):
        return FILES["mise.toml"]
    return FILES.get(name) or STEMS.get(name.partition(".")[0]) or ENDINGS.get(os.path.splitext(name)[1])


def part_that_runs(path: str, data: bytes) -> bytes:
    """Return of a file's content what runs later; all of it if that cannot be told.

    Args:
        path: of a file for which `reason_of` has a reason.
        data: its content.
    """
    if path.casefold().rpartition("/")[2] not in ("package.json", "composer.json"):
        return data
    try:
        package: object = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return data
    if not isinstance(package, dict):
        return data
    scripts = {key: value for key, value in cast("dict[str, Any]", package).items() if key in SCRIPTS and value}
    return json.dumps(scripts, sort_keys=True).encode() if scripts else b""


@dataclass(frozen=True)
class Found:
    """A file that runs later.

    Attributes:
        reason: why.
        part: what of it runs; of a link, where it leads.
        content: the whole file, to put it back; None for a link, and for a file that is too large.
        mode: its permissions.
    """

    reason: str
    part: bytes
    content: bytes | None = None
    mode: int = 0o644


def survey(root: str) -> dict[str, Found]:
    """Find every file below a folder that may run later: path below it -> what of it does, which may be nothing.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[str, Found] = {}
    folders: list[tuple[str, bool]] = [("", False)]
    named: set[str] = set()
    while folders:
        folder, inside = folders.pop()
        entries = _entries(f"{root}/{folder}")
        is_git = _is_git_dir(folder, {entry.name for entry in entries})
        for entry in entries:
            path = f"{folder}/{entry.name}".lstrip("/")
            within = inside or is_git
            if is_git and entry.name in DATA:
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    folders.append((path, within))
                continue
            if entry.is_symlink() and os.path.isdir(entry.path):
                what = _of_link(root, entry, within)
                if what is not None and within and _is_looked_at(root, entry.path):
                    folders.append((path, within))
            else:
                what = _of_git(root, folder, entry, named) if within or entry.name == ".git" else _of(entry, path)
            if what is not None:
                found[path] = what
    seen: set[str] = set()
    while named - seen:
        place = (named - seen).pop()
        seen.add(place)
        for path, known in _files(root, place):
            found[path] = known
            if place.startswith(INCLUDED) and known.content is not None:
                named |= {*_named_by(root, os.path.dirname(path), _lines(root, path, known.content))}
    return found


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """List a folder, and make it readable before: git needs no permission to list `.git`, only to enter it.

    A folder whose path is too long for the system is empty: no program gets there by a path.
    """
    for attempt in range(2):
        try:
            return sorted(os.scandir(folder), key=lambda entry: entry.name)
        except PermissionError:
            if attempt:
                raise
            os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o700)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP):
                break
            raise
    return []


def _of_link(root: str, entry: os.DirEntry[str], within: bool) -> Found | None:
    """Return a link to a folder that git may follow: one in a repository, or one to what is not looked at."""
    leads = LINK + os.fsencode(os.readlink(entry.path))
    if within:
        return Found(GIT, leads)
    hidden = _is_inside(root, entry.path) and not _is_looked_at(root, entry.path)
    return Found(GIT, leads) if hidden and _holds_repository(entry.path) else None


def _holds_repository(folder: str) -> bool:
    return any(
        ".git" in (*folders, *files) or _is_git_dir("", {*folders, *files}) for _, folders, files in os.walk(folder)
    )


def _is_git_dir(folder: str, names: set[str]) -> bool:
    """Whether git may take a folder for a repository, or for what its worktrees share: by any name, also a bare one.

    Of a worktree's repository git wants `HEAD` where `commondir` is, and `objects` and `refs` where that leads.
    """
    is_own = "HEAD" in names and bool(names & {"objects", "commondir", "refs"})
    return folder.rpartition("/")[2] == ".git" or is_own or {"objects", "refs"} <= names


def _of(entry: os.DirEntry[str], path: str) -> Found | None:
    reason = reason_of(path)
    return None if reason is None else _read(entry.path, path, reason)


def _read(place: str, path: str, reason: str) -> Found | None:
    try:
        known = os.lstat(place)
        if stat.S_ISLNK(known.st_mode):
            return Found(reason, LINK + os.fsencode(os.readlink(place)) + b"\0" + _content(place))
        if not stat.S_ISREG(known.st_mode):
            return Found(reason, b"no file")
        if known.st_size > MOST_BYTES:
            return Found(reason, f"{known.st_size} bytes at {known.st_mtime_ns}".encode())
        with open(place, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return Found(reason, b"not readable")
    return Found(reason, part_that_runs(path, content), content, stat.S_IMODE(known.st_mode))


def _content(place: str) -> bytes:
    """Return the content of what a link leads to, if it is a file."""
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            return b""
        with open(place, "rb") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError):
        return b""


def _of_git(root: str, folder: str, entry: os.DirEntry[str], named: set[str]) -> Found | None:
    """Return what of a file of git runs: hooks, and what only a person writes into a configuration."""
    if entry.name not in OF_GIT and not _is_hook(folder, entry):
        return None
    known = _read(entry.path, "", GIT)
    if known is None or known.content is None:
        return known
    text = known.content.decode("utf-8", "surrogateescape")
    part = ""
    if entry.name == ".git":
        part = "" if _leads_inside(root, folder, text) else text
    elif entry.name in ("config", "config.worktree"):
        lines = _lines(root, os.path.join(folder, entry.name), known.content)
        named |= {*_named_by(root, folder, lines)}
        part = "\n".join(lines)
    elif entry.name == "commondir":
        # As git writes it for a worktree. It leads to a folder that is looked at, whatever its name.
        part = "" if re.fullmatch(r"(.*/)?worktrees/[^/]+", folder) and text == "../..\n" else text
    elif entry.name == "git-rebase-todo":
        part = "\n".join(line for line in text.splitlines() if re.match(r"\s*(?:exec|x)\b", line))
    elif _is_hook(folder, entry):
        part = text
    return Found(known.reason, part.encode("utf-8", "surrogateescape"), known.content, known.mode)


def _is_hook(folder: str, entry: os.DirEntry[str]) -> bool:
    return "hooks" in folder.split("/") and not entry.name.endswith(".sample")


def _leads_inside(root: str, folder: str, text: str) -> bool:
    """Whether a file `.git` names a repository below the root, whose own files are looked at."""
    match = re.fullmatch(r"gitdir: ([^\n]+)\n*", text)
    return match is not None and _is_looked_at(root, os.path.join(root, folder, match[1]))


def _is_looked_at(root: str, path: str) -> bool:
    """Whether `survey` comes to a folder: it is below the root, and in none that is left out."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    if not real.startswith(f"{top}/"):
        return real == top
    above = top
    for name in real.removeprefix(f"{top}/").split("/"):
        try:
            inside = _is_git_dir(above.removeprefix(top), {*os.listdir(above)})
        except OSError:
            return False
        if name in SKIPPED or (inside and name in DATA):
            return False
        above = f"{above}/{name}"
    return True


def _is_inside(root: str, path: str) -> bool:
    real, top = os.path.realpath(path), os.path.realpath(root)
    return real == top or real.startswith(f"{top}/")


def _lines(root: str, path: str, content: bytes) -> list[str]:
    folder, text = os.path.dirname(path), content.decode("utf-8", "surrogateescape")
    return lines_that_run(text, lambda value: _is_inside(root, os.path.join(root, folder, value)))


def _named_by(root: str, folder: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield what lines of a configuration name below the root: hooks, programs, and files that they include.

    Git looks for programs and hooks from the top of the worktree, and for what it includes beside the configuration.
    """
    top = os.path.dirname(folder) if folder.rpartition("/")[2] == ".git" else folder
    for line in lines:
        key, _, value = line.partition(" = ")
        if _ONLY_DATA.search(key):
            continue
        value = value.strip().strip("\"'!")
        mark = INCLUDED if key.startswith("include") else HOOKS if key == "core.hookspath" else ""
        for word in dict.fromkeys((value, *_WORDS.split(value))):
            for base in dict.fromkeys((top, folder)) if word and "\0" not in word else ():
                place = os.path.normpath(os.path.join(root, base, word))
                if place.startswith(f"{root}/"):
                    yield mark + os.path.relpath(place, root)


def _files(root: str, place: str) -> Iterator[tuple[str, Found]]:
    """Yield a file that a configuration names, or the hooks of a folder."""
    top = os.path.join(root, place.removeprefix(INCLUDED).removeprefix(HOOKS))
    is_folder = os.path.isdir(top) and not os.path.islink(top)
    if is_folder and not place.startswith(HOOKS):
        return
    for folder, _, names in os.walk(top) if is_folder else [(os.path.dirname(top), [], [os.path.basename(top)])]:
        for name in names[:MOST_NAMED]:
            path = os.path.relpath(os.path.join(folder, name), root)
            known = _read(os.path.join(folder, name), "", GIT)
            if known is not None and os.path.lexists(f"{root}/{path}"):
                yield path, known
