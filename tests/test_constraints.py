"""The pinned versions can be installed wherever `make test` says that it works, and Pydantic AI has one pin."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.environments import REPOSITORY

OLDEST = "3.11.0"


def test_pinned_versions_accept_the_oldest_python() -> None:
    """Debian 12 has Python 3.11.2. A pin that needs 3.11.5 makes `make test` fail there, and only there."""
    refused: dict[str, str] = {}
    for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines():
        try:
            python = str(metadata(Requirement(line).name).json.get("requires_python", ""))
        except PackageNotFoundError:  # a pin for another system
            continue
        if not SpecifierSet(python).contains(OLDEST):
            refused[line] = python
    assert refused == {}


# -- one pin of Pydantic AI --------------------------------------------------------------------------------------------

KERNEL = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
RANGE = next(Requirement(text) for text in KERNEL["dependencies"] if text.startswith("pydantic-ai-slim")).specifier
OLDEST_AI = next(Version(one.version) for one in RANGE if one.operator == ">=")
NEWEST_AI = next(
    Version(line.partition("==")[2])
    for line in (REPOSITORY / "constraints.txt").read_text("utf-8").splitlines()
    if line.startswith("pydantic-ai-slim==")
)
FROZEN = ("CHANGELOG.md", "benchmarks", "docs/decisions", "plugins/cli/tests/plugins/test_install.py")
"""What says what was, or quotes an installer."""
MENTION = re.compile(r"(?:Pydantic AI|needs|since|Since|pydantic-ai-slim)\W{0,4}(2\.\d\d)\b(?: to (2\.\d\d)\b)?")


def test_every_requirement_of_pydantic_ai_has_the_range_of_the_kernel() -> None:
    manifests = [*REPOSITORY.glob("plugins/*/pyproject.toml"), *REPOSITORY.glob("requirements/*.txt")]
    found = {
        (path.relative_to(REPOSITORY).as_posix(), str(Requirement(text).specifier))
        for path in manifests
        for text in re.findall(r"^ *\"?(pydantic-ai-slim[^\"\n#;]*)", path.read_text("utf-8"), re.M)
        if path.name != "oldest.txt"
    }
    assert len(found) > 2
    assert {specifier for _, specifier in found} == {str(RANGE)}


def test_the_oldest_that_is_tested_is_the_oldest_that_is_allowed() -> None:
    lines = (REPOSITORY / "requirements" / "oldest.txt").read_text("utf-8").splitlines()
    (pinned,) = (Requirement(line) for line in lines if line.startswith("pydantic-ai-slim"))
    assert pinned.specifier == SpecifierSet(f"=={OLDEST_AI.major}.{OLDEST_AI.minor}.0")
    assert NEWEST_AI in RANGE


def test_no_page_and_no_comment_speaks_of_a_version_that_is_too_old_or_not_yet_tested() -> None:
    """When the oldest version rises, what an older one could not do is no longer worth a word; nor what was its pin."""
    found, wrong = 0, list[str]()
    command = ["git", "ls-files", "*.py", "*.md", "*.toml"]
    names = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        if not name.startswith(FROZEN) and (REPOSITORY / name).exists():
            for mention in MENTION.finditer((REPOSITORY / name).read_text("utf-8")):
                found += 1
                low, high = Version(mention[1]), Version(mention[2] or mention[1])
                right = OLDEST_AI <= low <= NEWEST_AI and high <= NEWEST_AI
                if not right or (mention[2] and (low, high) != (OLDEST_AI, Version(f"2.{NEWEST_AI.minor}"))):
                    wrong.append(f"{name}: {mention[0]}")
    assert found > 20
    assert wrong == []
