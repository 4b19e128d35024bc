"""The modules that importing the plugin loads, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import deep_subagents
import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LOADED = "import sys; print(*sorted({'pydantic', 'pydantic_ai'} & set(sys.modules)))"


@pytest.mark.parametrize(
    "use", ["deep_subagents.__all__", "deep_subagents.SUBAGENTS", "deep_subagents.deep_hookspecs()"]
)
def test_importing_the_plugin_loads_no_framework(use: str) -> None:
    assert run(f"import deep_subagents; {use}; {LOADED}") == ""


def test_every_public_name_is_there_and_no_other() -> None:
    assert sorted(deep_subagents.__all__) == deep_subagents.__all__
    assert all(hasattr(deep_subagents, name) for name in deep_subagents.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Subagents'"):
        _ = deep_subagents.Subagents
