"""The command line of a search by ripgrep."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..search import SearchRequest

__all__ = ["COMMON", "PRUNED", "Told", "escape", "relative_to", "search_command", "tell"]

# Search every file of the walk in `search`, whatever ignore files, configuration and terminal say. Without
# --no-mmap, ripgrep finds a NUL byte in the first buffer only.
COMMON = (
    "--no-config", "--no-ignore", "--hidden", "--no-mmap", "--color=never", "--no-heading", "--with-filename", "--null",
)  # fmt: skip
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.*-]+")
"""A glob of a name that ripgrep reads as we do."""
PRUNED = 1_000
"""Maximum ignored paths that ripgrep leaves out; what it finds in others is left out afterwards."""


@dataclass
class Told:
    """What ripgrep learns before it starts.

    Attributes:
        arguments: what to leave out, and where to begin.
        narrow: whether it searches no other files than those that are wanted.
        folders: how many of the ignored folders it knows, the first.
        files: whether it knows the ignored files.
        names: of the ignored folders that it knows wherever they are.
    """

    arguments: list[str]
    narrow: bool = True
    folders: int = 0
    files: bool = False
    names: frozenset[str] = frozenset()


def tell(
    skipped: Collection[str],
    request: SearchRequest,
    above: str,
    *,
    with_files: bool,
    names: frozenset[str] = frozenset(),
) -> Told:
    """Say how ripgrep leaves out what the walk leaves out, as far as the walk has come, and folders of these names."""
    left = request.left
    folders = left.folders[:PRUNED]
    names = names if len(names) <= PRUNED else frozenset()
    arguments = [f"--glob=!**/{name}/" for name in [*sorted(skipped), *map(escape, sorted(names))]]
    arguments += [f"--glob=!/{escape(path.removeprefix(above))}/" for path in folders]
    with_files = with_files and len(left.folders) + len(left.files) <= PRUNED
    if with_files:
        arguments += [f"--glob=!/{escape(path.removeprefix(above))}" for path in left.files]
    wanted = request.wanted
    narrow = wanted is None
    if wanted is not None and wanted.names is not None and all(map(_SAFE_NAME.fullmatch, wanted.names)):
        # A type and not a glob: one glob that includes would override all that exclude.
        arguments += [*(f"--type-add=wanted:{name}" for name in wanted.names), "--type=wanted"]
        narrow = request.prefix == wanted.prefix
        if narrow and wanted.depth is not None:
            arguments.append(f"--max-depth={wanted.depth + 1}")
    return Told([*arguments, "--", relative_to(request.root, above)], narrow, len(folders), with_files, names)


def search_command(program: str, request: SearchRequest, arguments: Sequence[str]) -> list[str]:
    """Return the command of a search with these arguments."""
    # The pattern and the paths come from the model: no shell, and no text of theirs can be an option.
    # A word of its own, because of `--regexp==> x` ripgrep 13 takes `> x`.
    return [program, *COMMON, "--regexp", str(request.dialect.ripgrep), *arguments]


def relative_to(path: str, above: str) -> str:
    """Return a path as ripgrep takes it in the directory `above`, which ends with a slash."""
    return f"./{path.removeprefix(above)}" if path.startswith(above) else "./"


def escape(name: str) -> str:
    """Return the glob of a name or a path."""
    # White space in a class, because ripgrep trims a pattern's end.
    return re.sub(r"(\s)", r"[\1]", re.sub(r"([*?\[\]{}!\\#])", r"\\\1", name))
