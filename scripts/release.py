"""Prepare a release of all distributions, which share one version. Nothing here publishes: release.yml does.

    python scripts/release.py home https://…   # [project.urls] of every distribution
    python scripts/release.py bump 0.2.0       # every version
    python scripts/release.py changelog        # the fragments of changelog.d into CHANGELOG.md, dated today
    python scripts/release.py check            # versions, ranges, urls, names, changelog
    python scripts/release.py names            # every distribution and module against names_checked.json
    python scripts/release.py names --against FILE   # and first that list against all names of an index
    python scripts/release.py wheels dist      # every wheel, unchecked
    python scripts/release.py build dist       # sdists, wheels from them, twine check, entry points

FILE has a name a line, up to a tab if there is one; `-` is standard input, as in release.yml.
`build` needs what requirements/release.txt names, and an environment with the dependencies of deep.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

try:
    from scripts import changelog, names
except ImportError:  # run as a program: this folder is on the path, its parent is not
    import changelog
    import names

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^(version|__version__) = "([^"]+)"$', re.M)
URLS = re.compile(r"\n\[project\.urls\]\n(?:[^\[\n].*\n)*")
FEW = 100_000
"""An index with fewer names is cut, or another one."""
IMPORT = """
import sys
from importlib.metadata import distributions
from pathlib import Path
target, wrong = Path(sys.argv[1]).resolve(), 0
for found in distributions(path=[str(target)]):
    for point in found.entry_points:
        try:
            point.load()
            file = Path(sys.modules[point.module].__file__).resolve()
            assert file.is_relative_to(target), f"was imported from {file}"
        except Exception as error:
            wrong += 1
            print(f"{found.name}: entry point {point.name} = {point.value}: {type(error).__name__}: {error}")
sys.exit(bool(wrong))
"""


def projects(root: Path) -> list[Path]:
    """The folders of all distributions, the kernel's first."""
    return [root, *sorted(path.parent for path in root.glob("plugins/*/pyproject.toml"))]


def project(folder: Path) -> dict[str, Any]:
    """`[project]` of a distribution."""
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def versioned(root: Path) -> list[Path]:
    """Every file that says the version."""
    modules = [root / "deep_core" / "__init__.py", *sorted(root.glob("plugins/*/src/*/__init__.py"))]
    manifests = [folder / "pyproject.toml" for folder in projects(root)]
    return manifests + [path for path in modules if "__version__ = " in path.read_text("utf-8")]


def bump(root: Path, version: str) -> list[str]:
    """Write a version into every file that says one, unless something is wrong, which is returned."""
    try:
        new, old = Version(version), Version(project(root)["version"])
    except InvalidVersion as error:
        return [f"{error}: write it as 0.2.0 or 0.2.0rc1"]
    if str(new) != version or new <= old:
        return [f"{version} does not come after {old}: name a later version, such as {old.major}.{old.minor + 1}.0"]
    for path in versioned(root):
        path.write_text(VERSION.sub(rf'\1 = "{version}"', path.read_text("utf-8"), count=1), "utf-8")
    return []


def home(root: Path, url: str) -> list[str]:
    """Write the project's urls into every distribution."""
    url = url.rstrip("/")
    if not re.fullmatch(r"https://[\w.-]+/[\w./-]+", url):
        return [f"{url} is no address of a repository: write https://host/owner/name"]
    urls = f'\n[project.urls]\nRepository = "{url}"\nIssues = "{url}/issues"\n'
    urls += f'Changelog = "{url}/blob/main/CHANGELOG.md"\n'
    for folder in projects(root):
        path = folder / "pyproject.toml"
        path.write_text(URLS.sub("", path.read_text("utf-8")).rstrip("\n") + "\n" + urls, "utf-8")
    return []


def check(root: Path) -> Iterator[str]:
    """What keeps this tree from being released."""
    version: str = project(root)["version"]
    for path in versioned(root):
        found = VERSION.search(path.read_text("utf-8"))
        if found is None or found[2] != version:
            yield f"{path.relative_to(root)} says {found and found[2]}, the kernel {version}: run release.py bump"
    own = {project(folder)["name"] for folder in projects(root)}
    for folder in projects(root):
        where, data = (folder / "pyproject.toml").relative_to(root), project(folder)
        extras = data.get("optional-dependencies", {}).values()
        texts: list[str] = [*data["dependencies"], *(text for extra in extras for text in extra)]
        for need in map(Requirement, texts):
            if need.name in own and not need.specifier.contains(version, prereleases=True):
                yield f"{where} needs {need}, which leaves out {version}: change the range"
        if not data.get("urls"):
            yield f"{where} has no [project.urls]: run release.py home with the address of the repository"
    yield from names.unchecked(names.own_names(root), names.read())
    yield from changelog.wrong(root, own)
    told = changelog.section(root, version)
    if changelog.fragments(root) or told in (None, "", "unreleased"):
        yield f'CHANGELOG.md has no "## {version} (DATE)" with all changes: run release.py changelog'


def compare_names(root: Path, against: str | None) -> list[str]:
    """What keeps our names from being registered; with all names of an index, compares and writes the list first."""
    own = names.own_names(root)
    if against is not None:
        text = sys.stdin.read() if against == "-" else Path(against).read_text("utf-8")
        index = [line.partition("\t")[0].strip() for line in text.splitlines()]
        if len(index) < FEW:
            return [f"{against} has {len(index)} names: it must name every distribution of the index"]
        names.write(names.compare(own, index, names.read()))
    return list(names.unchecked(own, names.read()))


def run(*command: str | Path, **more: Any) -> None:
    """Run a program; its failure ends this one."""
    subprocess.run(command, check=True, **more)


def wheels(root: Path, out: Path) -> None:
    """Build every wheel, in this process: to start a build backend for each takes longer than they do."""
    from hatchling.builders.wheel import WheelBuilder

    for folder in projects(root):
        list(WheelBuilder(str(folder)).build(directory=str(out.resolve()), versions=["standard"]))


def build(root: Path, out: Path) -> list[str]:
    """Build sdists, then wheels from them, into an empty folder; check both, and import every entry point."""
    if out.exists() and any(out.iterdir()):
        return [f"{out} is not empty: name another folder, or empty it"]
    python = sys.executable
    for folder in projects(root):
        run(python, "-m", "hatchling", "build", "--target", "sdist", "--directory", out.resolve(), cwd=folder)
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    quietly = ("--quiet", "--no-index", "--no-deps")
    run(*pip, "wheel", *quietly, "--no-build-isolation", "--wheel-dir", out, *sorted(out.glob("*.tar.gz")))
    run(python, "-m", "twine", "check", "--strict", *sorted(out.iterdir()))
    return entry_points(sorted(out.glob("*.whl")), out.with_name(f"{out.name}-installed"))


def entry_points(wheels: Sequence[Path], target: Path) -> list[str]:
    """Install wheels into a folder and import all that their entry points name; returns what failed."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--no-index", "--no-deps", "--upgrade", "--target", target, *wheels)
    environment = os.environ | {"PYTHONPATH": str(target)}
    command = [sys.executable, "-c", IMPORT, str(target)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """The command line; returns 1 if something is wrong, and prints it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("home").add_argument("url")
    commands.add_parser("bump").add_argument("version")
    commands.add_parser("changelog")
    commands.add_parser("check")
    commands.add_parser("names").add_argument("--against", metavar="FILE")
    commands.add_parser("wheels").add_argument("out", type=Path)
    commands.add_parser("build").add_argument("out", type=Path)
    given = parser.parse_args(arguments)
    match given.command:
        case "home":
            wrong = home(root, given.url)
        case "bump":
            wrong = bump(root, given.version)
        case "changelog":
            wrong = list(changelog.wrong(root, {project(folder)["name"] for folder in projects(root)}))
            if not wrong:
                changelog.assemble(root, project(root)["version"], datetime.date.today().isoformat())
        case "names":
            wrong = compare_names(root, given.against)
        case "wheels":
            wheels(root, given.out)
            wrong = []
        case "build":
            wrong = build(root, given.out)
        case _:
            wrong = list(check(root))
    print("\n".join(wrong) or f"{given.command}: done")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
