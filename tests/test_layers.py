"""The house: two layers, no circle, small files, a declared public surface, private names of others in one module."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deep_core
from deep_core import plugin_api
from scripts.count_code import code_lines
from tests import import_graph
from tests.import_graph import Imports

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "deep_core"
PACKAGES = [KERNEL, *sorted(path for path in ROOT.glob("plugins/*/src/*") if (path / "__init__.py").exists())]

UP_FOR_TYPES = {
    ("deep_core.plugins.context", "deep_core.agent.run.session"): "PluginContext.session_dir takes a session",
}
"""Where the lower layer names a type of the upper one, and why no protocol cuts it.

`hookspecs.py` is written as a plugin's author writes: it names the types of the public package.
"""
LAYERS = [
    *("deep_core.names", "deep_core.lazy", "deep_core.errors", "deep_core.tracing", "deep_core.parameters"),
    *("deep_core.tables", "deep_core.frozen"),
]
"""Modules of the root that both layers stand on."""


def modules(package: Path) -> dict[str, Imports]:
    return import_graph.read(package)


# -- two layers --------------------------------------------------------------------------------------------------------


def test_the_plugin_layer_imports_nothing_of_the_agent_layer() -> None:
    graph = import_graph.edges(modules(KERNEL))
    allowed = {*LAYERS, "deep_core"}  # the package itself: its version
    for module in (module for module in graph if module.startswith("deep_core.plugins")):
        assert {target for target in graph[module] if not target.startswith("deep_core.plugins")} <= allowed, module


def test_the_plugin_layer_names_types_of_the_agent_layer_only_where_this_test_says_so() -> None:
    graph = import_graph.edges(modules(KERNEL), types=True)
    up = {
        (module, target)
        for module, targets in graph.items()
        for target in targets
        if module.startswith("deep_core.plugins") and target.startswith("deep_core.agent")
    }
    assert up == set(UP_FOR_TYPES)


def test_the_modules_below_both_layers_import_neither() -> None:
    graph = import_graph.edges(modules(KERNEL))
    for module in set(LAYERS) & graph.keys():
        assert graph[module] <= {*LAYERS}, module


def test_the_plugin_layer_runs_without_pydantic_ai() -> None:
    program = """
import importlib, pkgutil, sys
import deep_core.plugins
for module in pkgutil.walk_packages(deep_core.plugins.__path__, "deep_core.plugins."):
    importlib.import_module(module.name)
from deep_core.plugins.kernel import PluginKernel
with PluginKernel(discover=False) as kernel:
    assert kernel.active == ()
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"pydantic_ai", "openai", "anthropic"}))
print(*sorted(name for name in sys.modules if name.startswith("deep_core.agent")))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_modules_import_each_other_in_a_circle(package: Path) -> None:
    assert import_graph.circles(import_graph.edges(modules(package))) == []


# -- small -------------------------------------------------------------------------------------------------------------


def lines_of_code(folder: Path) -> int:
    return sum(map(code_lines, folder.rglob("*.py")))


def test_the_plugin_layer_stays_below_2000_lines_of_code() -> None:
    assert lines_of_code(KERNEL / "plugins") < 2_000


def test_both_layers_stay_below_5300_lines_of_code() -> None:
    """docs/decisions/0015-the-size-of-the-kernel.md says what the lines are for, and what left the kernel."""
    assert lines_of_code(KERNEL) < 5_300


# -- tests mirror modules ----------------------------------------------------------------------------------------------


def test_every_module_has_its_tests_where_its_place_says() -> None:
    """deep_core/agent/run/history.py is tested by tests/agent/run/test_history.py, and by files that begin like it."""
    missing = {
        str(module.relative_to(ROOT)): str(tests.relative_to(ROOT))
        for module in KERNEL.rglob("*.py")
        if not module.name.startswith("_")
        and code_lines(module) > 40
        and not (tests := ROOT / "tests" / module.parent.relative_to(KERNEL) / f"test_{module.name}").exists()
    }
    assert missing == {}


def test_no_test_stands_in_a_folder_without_its_module() -> None:
    """Beside `test_kernel.py` may stand `test_kernel_closing.py`: one more file about the same module."""
    stray: list[str] = []
    for folder in (path for path in KERNEL.rglob("*") if path.is_dir() and path.name != "__pycache__"):
        about = [path.stem for path in folder.glob("*.py")]
        for tests in (ROOT / "tests" / folder.relative_to(KERNEL)).glob("test_*.py"):
            name = tests.stem.removeprefix("test_")
            if not any(name == module or name.startswith(f"{module}_") for module in about):
                stray.append(str(tests.relative_to(ROOT)))
    assert stray == []


# -- the surface -------------------------------------------------------------------------------------------------------

PUBLIC = {f"deep_core.{name}" for name in deep_core.__all__} | {
    f"deep_core.plugin_api.{name}" for name in plugin_api.__all__
}
USERS = [
    *(path for package in PACKAGES[1:] for path in package.rglob("*.py")),
    *(path for folder in ("examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")),
]


def kernel_names(path: Path) -> set[str]:
    """What a file imports of the kernel."""
    text = path.read_text(encoding="utf-8")
    found: set[str] = set()
    for match in re.finditer(r"^\s*from (deep_core[\w.]*) import (\([^)]*\)|.+)$", text, re.M):
        names = re.sub(r"#.*|[()]", "", match[2]).replace("\n", " ").split(",")
        found |= {f"{match[1]}.{name.split(' as ')[0].strip()}" for name in names if name.strip()}
    return found | set(re.findall(r"^\s*import (deep_core\.[\w.]+)", text, re.M))


def test_plugins_examples_and_benchmarks_import_the_public_surface_only() -> None:
    allowed = {*PUBLIC, "deep_core.__version__", "deep_core.plugin_api"}
    wrong = {str(path.relative_to(ROOT)): names - allowed for path in USERS if (names := kernel_names(path))}
    assert {path: sorted(names) for path, names in wrong.items() if names} == {}


@pytest.mark.parametrize("module", [deep_core, plugin_api], ids=lambda module: module.__name__)
def test_every_public_name_is_there_and_in_the_stub(module: Any) -> None:
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: node.module
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name != "lazy_exports"
    }
    assert homes == {name: home for home, names in {**module.HOMES, **module.OTHERS}.items() for name in names}
    (listed,) = (ast.literal_eval(node.value) for node in ast.walk(stub) if isinstance(node, ast.Assign))
    assert sorted(listed) == module.__all__
    assert all(getattr(module, name) is not None for name in listed)


# -- private names of others -------------------------------------------------------------------------------------------

PRIVATE = re.compile(r"\b(?:pydantic_ai|pydantic|pydantic_core|pluggy)(?:\.\w+)*\._\w+")


def test_private_names_of_other_projects_stand_in_one_module() -> None:
    for module, imports in modules(KERNEL).items():
        private = {name for name in imports.run | imports.types if PRIVATE.match(name)}
        assert not private or module == "deep_core.agent._pydantic_ai", (module, private)


def test_private_attributes_are_used_in_one_module() -> None:
    """pyright reports every other use; a suppression of that report names the module that may."""
    for path in KERNEL.rglob("*.py"):
        uses = [line for line in path.read_text(encoding="utf-8").splitlines() if "reportPrivateUsage" in line]
        own = {"errors.py": "sys._getframe", "kernel.py": "_default._closed"}
        if path.name != "_pydantic_ai.py":
            assert all(own.get(path.name, "nothing") in line for line in uses), (path, uses)
