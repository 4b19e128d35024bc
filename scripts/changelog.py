"""The changelog from its fragments: changelog.d/NAME.KIND.md, one paragraph each, as changelog.d/README.md says."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["KINDS", "Fragment", "assemble", "fragments", "section", "wrong"]

KINDS = ("added", "changed", "fixed", "removed")
"""In the order in which the changelog has them."""


class Fragment(NamedTuple):
    """One change."""

    path: Path
    kind: str
    text: str


def fragments(root: Path) -> list[Fragment]:
    """Return all fragments, by the names of their files."""
    paths = sorted(path for path in (root / "changelog.d").glob("*") if path.name != "README.md")
    return [Fragment(path, path.stem.rpartition(".")[2], " ".join(path.read_text("utf-8").split())) for path in paths]


def wrong(root: Path, distributions: set[str]) -> Iterator[str]:
    """Say which fragments cannot be assembled."""
    for path, kind, text in fragments(root):
        where = path.relative_to(root)
        if path.suffix != ".md" or kind not in KINDS or path.stem == kind:
            yield f"{where}: call it NAME.KIND.md, where KIND is {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        elif not {name.strip() for name in text.partition(":")[0].split(",")} <= distributions:
            yield f"{where}: begin with the distribution that changed and a colon, as in `deep-cli: …`"
        elif not text.partition(":")[2].strip():
            yield f"{where}: say after the colon what a user sees"


def section(root: Path, version: str) -> str | None:
    """What the changelog's heading says after this version, None without a heading or without entries below it."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(version)}(?: \((.*)\))?\n+(?=- |### )", text, re.M)
    return found and (found[1] or "")


def assemble(root: Path, version: str, date: str) -> None:
    """Move the fragments into the version's section of CHANGELOG.md, dated; its section is made if it has none."""
    path, heading = root / "CHANGELOG.md", f"## {version} ({date})\n"
    text = path.read_text("utf-8")
    text, had = re.subn(rf"^## {re.escape(version)}(?: \(.*\))?\n", heading, text, count=1, flags=re.M)
    if not had:
        text = text.replace("\n## ", f"\n{heading}\n## ", 1)
    before, _, rest = text.partition(heading)
    own, mark, older = rest.partition("\n## ")
    parts, found = [own.strip()], fragments(root)
    for kind in KINDS:
        entries = [textwrap.fill(f"- {one.text}", 125, subsequent_indent="  ") for one in found if one.kind == kind]
        parts += [f"### {kind.capitalize()}", "\n".join(entries)] if entries else []
    body = "\n\n".join(filter(None, parts))
    path.write_text(f"{before}{heading}\n{body}\n{mark}{older}", "utf-8")
    for one in found:
        one.path.unlink()
