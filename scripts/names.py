"""Whether the package index would register our names, by the rule with which it compares them.

The index refuses a distribution whose name equals another one without `.`, `-` and `_`, without case, and with l, i and
1 as one letter and o and 0 as another: `deep-core` is `deepcore`, and `deep-all` is `deepali`. A module must not be the
module of a stranger's distribution, and a distribution usually has the module of its own name.

names_checked.json beside this file says what was compared when, so a release and the tests need no index to find a name
that was never compared.
"""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

__all__ = ["CHECKED", "Checked", "Name", "compare", "normal", "own_names", "read", "unchecked", "write"]

CHECKED = Path(__file__).with_name("names_checked.json")
FREE, OURS = "free", "ours"
"""Results with which a name may be released; `ours` is written by hand when the first release has registered it."""
_ALIKE = str.maketrans({"l": "1", "i": "1", "o": "0"})


class Name(NamedTuple):
    """A name that a distribution of ours would take."""

    kind: Literal["distribution", "module"]
    name: str


class Checked(TypedDict):
    """One line of names_checked.json; `result` is `free`, `ours`, or `taken by NAME`."""

    kind: str
    name: str
    normal: str
    date: str
    result: str


def normal(name: Name) -> str:
    """Return what the index, or for a module the import system, compares."""
    if name.kind == "module":
        return re.sub(r"[-_.]+", "_", name.name).lower()
    return re.sub(r"[-_.]", "", name.name).lower().translate(_ALIKE)


def own_names(root: Path) -> list[Name]:
    """Return every distribution of a checkout, and every module that its wheels bring, sorted."""
    manifests = (root / "pyproject.toml", *root.glob("plugins/*/pyproject.toml"))
    projects = (tomllib.loads(path.read_text("utf-8"))["project"]["name"] for path in manifests)
    modules = (root / "deep_core", *(path.parent for path in root.glob("plugins/*/src/*/__init__.py")))
    modules += (*root.glob("plugins/*/src/*.py"),)
    found = {*(Name("distribution", name) for name in projects), *(Name("module", path.stem) for path in modules)}
    return sorted(found)


def read(path: Path = CHECKED) -> list[Checked]:
    """Return the committed list."""
    return json.loads(path.read_text("utf-8"))


def write(checked: Iterable[Checked], path: Path = CHECKED) -> None:
    """Write the list, one name a line."""
    rows = sorted(checked, key=lambda row: (row["kind"], row["name"]))
    path.write_text("[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n", "utf-8")


def unchecked(names: Iterable[Name], checked: Iterable[Checked]) -> Iterator[str]:
    """Say which names the list lacks, has by another rule, or says are taken, and which of ours equal each other."""
    names = list(names)
    first = {(name.kind, normal(name)): name for name in reversed(names)}
    yield from (
        f"the index takes the {name.kind} {name.name} for {same.name}: rename one of them"
        for name in names
        if (same := first[name.kind, normal(name)]) != name
    )
    known = {Name(row["kind"], row["name"]): row for row in checked}  # type: ignore[arg-type]
    for name in names:
        row = known.get(name)
        if row is None or row["normal"] != normal(name):
            yield f"the {name.kind} {name.name} was never compared: run release.py names --against NAMES"
        elif row["result"] not in (FREE, OURS):
            yield f"the {name.kind} {name.name} is {row['result']}: choose another name"


def compare(names: Iterable[Name], index: Iterable[str], checked: Iterable[Checked]) -> list[Checked]:
    """Compare names with all names of an index.

    Args:
        names: ours.
        index: the name of every distribution that the index has.
        checked: the list so far. What it says is ours stays ours, and rows of names that are no longer ours stay.
    """
    names = list(names)
    wanted: dict[tuple[str, str], Name] = {(name.kind, normal(name)): name for name in names}
    taken = dict[Name, str]()
    for other in index:
        for kind in ("distribution", "module"):
            if found := wanted.get((kind, normal(Name(kind, other)))):
                taken[found] = other
    rows = {Name(row["kind"], row["name"]): row for row in checked}  # type: ignore[arg-type]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for name in names:
        ours = name in rows and rows[name]["result"] == OURS
        result = OURS if ours else f"taken by {taken[name]}" if name in taken else FREE
        rows[name] = Checked(kind=name.kind, name=name.name, normal=normal(name), date=today, result=result)
    return [*rows.values()]
