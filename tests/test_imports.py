"""What imports what: the kernel stays tiny and cheap, and plugins stay strangers to each other."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import deep_core
from tests.environments import REPOSITORY

KERNEL = REPOSITORY / "deep_core"
PLUGINS = sorted(path.parent for path in (REPOSITORY / "plugins").glob("*/pyproject.toml"))
THIRD_PARTY = {"pluggy", "platformdirs", "pydantic", "pydantic_ai"}
"""The kernel's third-party imports."""
BELOW = {
    "entry_point_index": {"importlib_metadata", "packaging"},
    "tool_expressions": {"pydantic", "pydantic_core"},
}
"""Our own packages that the kernel stands on, and what they import where it is used. They know nothing of it."""
PART_OF = {"pydantic_core": "pydantic", "typing_extensions": "pydantic"}
"""Packages that come with one of these, pinned by it."""


def sources(folder: Path) -> list[Path]:
    """The Python files of a package, without those of tasks: one has a conflict."""
    return sorted(path for path in folder.rglob("*.py") if not {"__pycache__", "suites_of_ours"} & {*path.parts})


def imports(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every absolute import of a file, wherever it stands: (module, names imported from it)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, tuple(alias.name for alias in node.names)


def own_imports(folder: Path) -> set[str]:
    """Names of the top-level packages that a package imports, the standard library and itself left out."""
    roots = {module.partition(".")[0] for path in sources(folder) for module, _ in imports(path)}
    return {root for root in roots if root not in sys.stdlib_module_names and root != folder.name}


def modules_of(plugin: Path) -> list[str]:
    """The top-level packages that a distribution brings."""
    return sorted(path.parent.name for path in (plugin / "src").glob("*/__init__.py"))


FIRST_PARTY = {module: plugin for plugin in PLUGINS for module in modules_of(plugin)}
ENTRIES = sorted(
    value.partition(":")[0]
    for plugin in PLUGINS
    for value in tomllib.loads((plugin / "pyproject.toml").read_text("utf-8"))["project"]
    .get("entry-points", {})
    .get("deep", {})
    .values()
)


# -- the kernel --------------------------------------------------------------------------------------------------------


def test_the_kernels_third_party_imports_are_exactly_these() -> None:
    assert {PART_OF.get(name, name) for name in own_imports(KERNEL)} == THIRD_PARTY | BELOW.keys()


def test_the_kernels_dependencies_are_exactly_its_imports() -> None:
    from packaging.requirements import Requirement

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {Requirement(text).name for text in project["dependencies"]}
    imported = {name.replace("_", "-") for name in THIRD_PARTY | BELOW.keys()}
    assert declared == imported - {"pydantic-ai"} | {"pydantic-ai-slim"}


def test_the_kernel_imports_no_plugin() -> None:
    assert FIRST_PARTY
    assert own_imports(KERNEL) & FIRST_PARTY.keys() == BELOW.keys()


def test_what_the_kernel_stands_on_imports_a_library_only_where_it_is_used() -> None:
    for name, needed in BELOW.items():
        assert own_imports(FIRST_PARTY[name] / "src" / name) == needed
        assert not loaded_by(f"from {name} import *") & {*HEAVY, *needed, "deep_core"}


def test_tool_expressions_requires_nothing() -> None:
    assert not tomllib.loads((FIRST_PARTY["tool_expressions"] / "pyproject.toml").read_text("utf-8"))["project"][
        "dependencies"
    ]


# -- plugins -----------------------------------------------------------------------------------------------------------


def relations() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each import that crosses from one first-party plugin into another."""
    for module, plugin in FIRST_PARTY.items():
        for path in sources(plugin / "src" / module):
            for target, names in imports(path):
                if target.partition(".")[0] in FIRST_PARTY and target.partition(".")[0] != module:
                    yield f"{path.relative_to(REPOSITORY)}", target, names


@pytest.mark.slow
def test_no_plugin_imports_another_plugins_private_module() -> None:
    for path, target, names in relations():
        assert "." not in target, f"{path} imports {target}: only what {target.partition('.')[0]} exports is public"
        public = exported(target)
        for name in names:
            assert name in public, f"{path} imports {target}.{name}, which {target} does not export"


def exported(module: str) -> set[str]:
    """A first-party package's `__all__`, read without importing it."""
    tree = ast.parse((FIRST_PARTY[module] / "src" / module / "__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


@pytest.mark.slow
def test_no_plugin_imports_a_private_name_of_the_kernel() -> None:
    known = {*deep_core.__all__, *(path.stem for path in sources(KERNEL)), "__version__"}
    for module, plugin in FIRST_PARTY.items():
        for path in sources(plugin / "src" / module):
            for target, names in imports(path):
                if target == "deep_core":
                    assert set(names) <= known, f"{path}: deep_core does not export {set(names) - known}"
                elif target.startswith("deep_core."):
                    private = [name for name in names if name.startswith("_")]
                    assert not private, f"{path} imports {private} of {target}"


def test_public_names_are_sorted_and_all_there() -> None:
    assert list(deep_core.__all__) == sorted(deep_core.__all__)
    for name in deep_core.__all__:
        assert getattr(deep_core, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = deep_core.nothing  # type: ignore[attr-defined]  # pyright: ignore


# -- what an import costs ----------------------------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in `sys.modules` after a statement, in a fresh interpreter."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    # From the checkout's sources: what is measured does not depend on what is installed.
    path = os.pathsep.join([str(REPOSITORY), *(str(plugin / "src") for plugin in PLUGINS)])
    environ = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"pydantic", "pydantic_core", "pydantic_ai", "pydantic_graph", "pydantic_ai_backend", "redis", "openai"}


@pytest.mark.parametrize("module", ["deep_core", *ENTRIES])
def test_importing_it_loads_neither_pydantic_nor_pydantic_ai(module: str) -> None:
    assert not loaded_by(f"import {module}") & HEAVY


def test_importing_the_kernel_loads_nothing_of_a_third_party() -> None:
    assert not loaded_by("import deep_core") & (THIRD_PARTY | PART_OF.keys())


def test_the_markers_that_every_plugin_imports_load_nothing_of_a_third_party() -> None:
    names = "hookimpl, hookspec, MissingExtra, PromptSection, Processor, StateSlot, Allow, Ask, Deny, SkillMeta"
    assert not loaded_by(f"from deep_core import {names}") & (THIRD_PARTY | PART_OF.keys())


def test_loading_every_first_party_plugin_loads_neither_pydantic_nor_pydantic_ai() -> None:
    """A kernel up to its agents: discovery, import, registration and state slots."""
    assert not loaded_by("from deep_core import Kernel\nKernel()") & HEAVY
