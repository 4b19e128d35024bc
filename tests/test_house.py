"""The figures of the kernel, as `python scripts/house.py` prints them, and that each can be too high."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from scripts.house import LIMITS, ROOT, Figure, figures, too_high

MANY = "\n".join(f"    if x == {n}:\n        x += 1" for n in range(15))
TOO_MUCH = {
    "code lines": {"agent/long.py": "x = 1\n" * 900},
    "code lines of plugins/": {"plugins/long.py": "x = 1\n" * 900},
    "Any in 100 code lines": {"agent/loose.py": "from typing import Any\nx: Any = 1\n" + "y: list[Any] = []\n" * 400},
    "casts in 100 code lines": {
        "agent/casts.py": "from typing import cast\n" + "x = cast(int, 1)\n" * 60,
    },
    "highest complexity of a function": {"agent/hard.py": f"def hard(x: int) -> int:\n{MANY}\n    return x\n"},
    "files in the largest circle, imports for types included": {
        f"agent/ring{n}.py": f"if TYPE_CHECKING:\n    from . import ring{(n + 1) % 5}\n" for n in range(5)
    },
}
"""Figure -> the files that make it too high, in a copy of the kernel."""


@cache
def figures_now() -> dict[str, Figure]:
    return figures()


@pytest.fixture(scope="module")
def too_much(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """The figures of a kernel with something added to each."""
    kernel = tmp_path_factory.mktemp("house") / "deep_core"
    shutil.copytree(ROOT / "deep_core", kernel, ignore=shutil.ignore_patterns("__pycache__"))
    for files in TOO_MUCH.values():
        for path, text in files.items():
            (kernel / path).write_text(text, encoding="utf-8")
    return figures(kernel)


@pytest.mark.parametrize("name", LIMITS)
def test_the_kernel_keeps_to_its_figures(name: str) -> None:
    value, where = figures_now()[name]
    assert not too_high(name, value), f"{name}: {value} of {LIMITS[name]}; {where}. python scripts/house.py prints all"


@pytest.mark.parametrize("name", LIMITS)
def test_each_figure_can_be_too_high(name: str, too_much: dict[str, Figure]) -> None:
    assert too_high(name, too_much[name].value), too_much[name]


@pytest.mark.parametrize("alias", ["from typing import Any as Loose", "Loose = Any", 'Loose: TypeAlias = "list[Any]"'])
def test_each_use_of_an_alias_of_any_counts(alias: str, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    text = f"from typing import Any, TypeAlias\n{alias}\n" + "x: Loose = []\n" * 98
    (tmp_path / "one.py").write_text(text, encoding="utf-8")
    assert figures_of_any(tmp_path) >= 98


def figures_of_any(folder: Path) -> float:
    (folder / "__init__.py").write_text("def nothing() -> None: ...\n", encoding="utf-8")
    return figures(folder)["Any in 100 code lines"].value


@pytest.mark.slow
def test_one_command_prints_every_figure() -> None:
    result = subprocess.run([sys.executable, "scripts/house.py"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert all(name in result.stdout for name in LIMITS)
