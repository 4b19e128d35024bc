"""The programs below a folder that a configured server starts: who trusts the server trusts these files as they are.

A server's words name them: a path, a module, a launcher with its manifest, a script in a shell's line. What these files
import from beside them belongs to them, for Python, JavaScript and shells. What no word names is not found: a program
that reads the name of another one from a file, or a package in an environment inside the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

__all__ = ["programs_below"]

MOST_FILES = 500
MOST_BYTES = 2_000_000
"""Of one file that is searched for imports; a longer one is only hashed."""
ENTRIES = (
    "__main__.py", "main.py", "server.py", "index.js", "index.mjs", "index.cjs", "index.ts", "package.json",
    "sitecustomize.py", "usercustomize.py",
)  # fmt: skip
"""What a program runs that is given a folder; Python, as `PYTHONPATH`, the last two."""
_NODE, _PYTHON = ("package.json",), ("pyproject.toml", "uv.lock", "poetry.lock")
MANIFESTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "pnpx", "bun", "bunx", "tsx", "node"), _NODE),
    **dict.fromkeys(("uv", "uvx", "poetry", "pdm", "hatch", "pipx"), _PYTHON),
    **dict.fromkeys(("deno",), ("deno.json", "deno.jsonc")),
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    **dict.fromkeys(("docker", "docker-compose", "podman"), ("Dockerfile", "docker-compose.yml", "compose.yaml")),
    "just": ("justfile", "Justfile"),
    "cargo": ("Cargo.toml", "build.rs", "src/main.rs"),
    "go": ("go.mod", "main.go"),
    "mise": ("mise.toml", ".mise.toml"),
    "rake": ("Rakefile",),
}
"""Launcher -> the files that say what it runs."""
_SPLIT = re.compile(r"[\s=,;:|&<>()\"'`]+")
_PYTHON_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^\n]+)|import[ \t]+([\w., \t]+))", re.M)
_NODE_IMPORT = re.compile(r"""["'](\.{1,2}/[^"'\n]+)["']""")
_CODE = re.compile(r"""["']((?:[\w./-]{1,200}\.(?:py|sh|bash|js|mjs|cjs|ts|so)|[A-Za-z_][\w.]{0,200}))["']""")
_NODE_SUFFIXES = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".json")


def programs_below(folder: Path, words: Sequence[str], cwd: str | None) -> dict[str, str]:
    """Return the files below a folder that a server's words start, by their path in it, each with its SHA-256.

    Args:
        folder: that holds the configuration.
        words: the command, its arguments, and the values of its variables, as they are used.
        cwd: the server's working directory; None for that of this process.
    """
    root = Path(os.path.abspath(folder))
    given = [part for word in words for part in dict.fromkeys((word, *_SPLIT.split(word))) if part]
    bases = [*dict.fromkeys((root, Path(os.path.abspath(cwd or "."))))]
    bases += [place for part in given for base in bases if (place := _below(root, base, part)) and place.is_dir()]
    found: dict[Path, None] = {}
    for path in _named(root, given, [*dict.fromkeys(bases)]):
        _take(root, path, bases, found)
    return {path.relative_to(root).as_posix(): _digest(root, path) for path in found}


def _named(root: Path, given: Sequence[str], bases: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that words name, in each folder in which they may be looked up."""
    names = [*given]
    for part in given:
        names += MANIFESTS.get(os.path.basename(part), ())
        names.append(f"node_modules/.bin/{part}")
        names += _module(part)
    for base in bases:
        for name in dict.fromkeys((*names, *(f"{name}/{entry}" for name in ("", *names) for entry in ENTRIES if name))):
            if (path := _below(root, base, name)) is not None and path.is_file():
                yield path


def _module(name: str) -> list[str]:
    """Return where a module of Python, or one after `-m` or in the settings of a project, would be."""
    place = name.replace(".", "/")
    ends = (".py", "/__init__.py", "/__main__.py") if re.fullmatch(r"\w+(\.\w+)*", name) else ()
    return [f"{source}{place}{end}" for source in ("", "src/") for end in ends]


def _below(root: Path, base: Path, name: str) -> Path | None:
    """Return where a name leads if that is below the root and not the root; links are not followed."""
    try:
        path = Path(os.path.abspath(base / os.path.expanduser(name)))
        return path if path != root and path.is_relative_to(root) else None
    except (OSError, ValueError):
        return None


def _take(root: Path, path: Path, bases: Sequence[Path], found: dict[Path, None]) -> None:
    """Add a file and what it imports from beside it."""
    waiting = [path]
    while waiting and len(found) < MOST_FILES:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        try:
            text = path.read_bytes()[:MOST_BYTES].decode("utf-8", "replace")
        except OSError:
            continue
        for name in _imports(path, text):
            for base in (path.parent, *bases):
                near = _below(root, base, name)
                if near is not None and near.is_file():
                    waiting.append(near)


def _imports(path: Path, text: str) -> Iterator[str]:
    if path.suffix == ".py" or re.match(r"#!.*python", text):
        for match in _PYTHON_IMPORT.finditer(text):
            module, names, plain = match.groups()
            modules = [f"{module}.{name}" for name in re.findall(r"\w+", names or "")] if module else []
            for each in (*([module] if module else ()), *modules, *re.split(r"[\s,]+", plain or "")):
                up = len(each) - len(each.lstrip("."))
                place = "../" * max(0, up - 1) + each.lstrip(".").replace(".", "/")
                # A package's `__init__` runs before its modules.
                parts = place.split("/")
                yield from (f"{'/'.join(parts[:count])}/__init__.py" for count in range(1, len(parts) + 1))
                yield f"{place}.py"
        for name in _CODE.findall(text):  # what it imports or starts by a name in quotes
            yield from (name, *_module(name))
    elif path.suffix in _NODE_SUFFIXES or re.match(r"#!.*(node|deno|bun)", text):
        for name in _NODE_IMPORT.findall(text):
            stem = name.removesuffix(".js")  # a TypeScript file is imported by the name of what it becomes
            yield from (name, *(f"{part}{suffix}" for part in {name, stem} for suffix in _NODE_SUFFIXES))
            yield from (f"{name}/{entry}" for entry in ENTRIES)
        yield "package.json"
        if path.suffix == ".json":  # the main file, scripts and tasks
            yield from _words(text)
    elif path.suffix in (".sh", ".bash", ".zsh", ".mk", ".toml") or text.startswith("#!") or "." not in path.name:
        for word in _words(text):
            yield from (word, *_module(word))


def _words(text: str) -> list[str]:
    return [word for word in dict.fromkeys(_SPLIT.split(text[:100_000])) if 1 < len(word) < 200]


def _digest(root: Path, path: Path) -> str:
    """Hash a file as it is reached: a link by where it leads, and by what is there if that is below the root too."""
    way = os.path.realpath(path)
    text = b"" if way == str(path) else os.path.relpath(way, root).encode(errors="surrogateescape") + b"\0"
    try:
        if not text or Path(way).is_relative_to(os.path.realpath(root)):
            text += Path(way).read_bytes()
    except OSError:
        text += b"not readable"
    return sha256(text).hexdigest()
