"""Another commit of ours beside this one: `python -m benchmarks --against REV`."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.measure import REPOSITORY, Contender, Figure, Spread, scratch

__all__ = ["WORSE", "Change", "as_table", "changes", "checked_out"]

WORSE = 1.03
"""A row is worse above this ratio."""

MEASURED = ("ms", "MB", "turns/s")
"""Units that differ from round to round."""
OWN = ("ours.py", "no_op.py")
"""The contenders that call our API: the commit keeps its own, since a name may have changed."""


@contextmanager
def checked_out(revision: str) -> Generator[Contender]:
    """Install a commit of ours into a temporary directory with an environment of its own.

    Both sides run the benchmarks of this checkout, with the same versions of the libraries: only our code differs.
    """
    commit = _git("rev-parse", "--short", f"{revision}^{{commit}}").decode().strip()
    print(f"installing {commit}", flush=True)
    with scratch() as root:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as archive:
            archive.extractall(root, filter="data")
        kept = shutil.ignore_patterns(".peers", "__pycache__", *OWN)
        shutil.copytree(REPOSITORY / "benchmarks", root / "benchmarks", ignore=kept, dirs_exist_ok=True)
        # Its own tools may exclude our versions: 8430019 asks for google-genai 3, this checkout for 2.
        shutil.copy(REPOSITORY / "requirements" / "dev.txt", root / "requirements")
        (root / "constraints.txt").write_text("\n".join(_versions()), encoding="utf-8")
        uv = Path(sys.executable).with_name("uv")
        make = ["make", "--silent", ".venv/.dev", f"PYTHON={sys.executable}", f"UV={uv if uv.exists() else ''}"]
        subprocess.run(make, cwd=root, check=True)
        yield Contender(commit, "ours", str(root / ".venv" / "bin" / "python"), root, floor=commit)


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, check=True).stdout


def _versions() -> list[str]:
    """The libraries of this environment, pinned; what is installed from a directory is ours."""
    return [f"{each.name}=={each.version}" for each in distributions() if each.read_text("direct_url.json") is None]


@dataclass(frozen=True)
class Change:
    """What a figure cost before, and costs now.

    Attributes:
        figure: what was measured, of both.
        before: the name of the other commit.
        ratio: of now to before, round by round, above 1 where now is worse; None where it cost nothing before.
    """

    figure: Figure
    before: str
    ratio: Spread | None

    @property
    def worse(self) -> bool:
        """Whether it costs more than 3 % more, and the spread of the rounds does not explain it."""
        if self._few:
            return False
        if self.ratio is None:
            return self.figure.values["ours"].low > self.figure.values[self.before].high
        return self.ratio.median > WORSE and self.ratio.between[0] > 1

    @property
    def _few(self) -> bool:
        """Whether there are too few rounds for an interval; what is counted needs one."""
        return self.figure.unit.startswith(MEASURED) and self.figure.values["ours"].rounds < 5

    @property
    def verdict(self) -> str:
        """The last column of the table."""
        if self.worse:
            return "**worse**"
        if self._few:
            return "too few rounds"
        if self.ratio is None:
            return ""
        if self.ratio.median > WORSE:
            return "within its spread"
        return "better" if self.ratio.median < 1 / WORSE and self.ratio.between[1] < 1 else ""


def changes(figures: Sequence[Figure], before: str) -> list[Change]:
    """Of each figure that has both."""
    both = [figure for figure in figures if {before, "ours"} <= set(figure.values)]
    return [Change(figure, before, _ratio(figure)) for figure in both]


def _ratio(figure: Figure) -> Spread | None:
    ratio = figure.ratios.get("ours")
    if ratio is None or figure.goal is None or not figure.goal.least:
        return ratio
    low, high = ratio.between  # more is better
    return Spread(1 / ratio.median, 1 / ratio.high, 1 / ratio.low, ratio.rounds, (1 / high, 1 / low))


def as_table(found: Sequence[Change], before: str) -> str:
    """As Markdown."""
    rows = [["what", "unit", before, "now", "now : before, above 1 is worse", "rounds", ""], ["---"] * 7]
    for change in found:
        figure, ratio = change.figure, change.ratio
        values = [figure.values[who].show(figure.digits) for who in (before, "ours")]
        shown = f"{ratio.median:.3f} ({ratio.between[0]:.3f}-{ratio.between[1]:.3f})" if ratio else ""
        rows.append([figure.name, figure.unit, *values, shown, str(figure.values["ours"].rounds), change.verdict])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
