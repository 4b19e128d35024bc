"""A command imports only what it needs. The tests count modules, because seconds depend on the machine."""

from __future__ import annotations

from typing import Any

import pytest

COUNT = """
import sys
before = set(sys.modules)
from deep_cli.main import main
try:
    main({arguments!r})
except SystemExit as end:
    code = end.code
new = sorted(set(sys.modules) - before)
answer([code, new])
"""
HEAVY = {"pydantic", "pydantic_core", "pydantic_ai", "rich", "openai", "httpx", "asyncio", "deep_filesystem"}


def imported(deep: Any, *arguments: str) -> list[str]:
    code, new = deep.environment.ask(COUNT.format(arguments=list(arguments)), flags=["-P"])
    assert code == 0
    return new


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("plugins", "list"), ("plugins", "list", "--json"), ("run", "--help")]
)
def test_light_commands_load_neither_pydantic_nor_rich_nor_a_plugin(deep: Any, arguments: tuple[str, ...]) -> None:
    roots = {module.partition(".")[0] for module in imported(deep, *arguments)}
    assert not roots & HEAVY


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "most"), [(("--version",), 120), (("plugins", "list"), 260)])
def test_light_commands_load_few_modules(deep: Any, arguments: tuple[str, ...], most: int) -> None:
    found = imported(deep, *arguments)
    assert len(found) <= most, found


@pytest.mark.slow
def test_the_version_scans_nothing(deep: Any) -> None:
    assert not {"importlib_metadata", "pluggy", "platformdirs"} & set(imported(deep, "--version"))


def test_importing_the_plugin_loads_neither_click_nor_rich_nor_pydantic(deep: Any) -> None:
    new = deep.environment.ask(
        "import sys; before = set(sys.modules); import deep_cli; answer(sorted(set(sys.modules) - before))"
    )
    assert not {module.partition(".")[0] for module in new} & {*HEAVY, "click"}


def test_the_version_is_the_distributions_and_is_printed_with_the_kernels(deep: Any) -> None:
    import importlib_metadata

    import deep_core

    version = importlib_metadata.version("deep-cli")
    assert deep("--version").ok().out == f"deep {version} (deep-agent-core {deep_core.__version__})\n"
