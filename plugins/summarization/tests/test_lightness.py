"""What importing the plugin loads, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_plugin_loads_no_framework() -> None:
    loaded = "print(*sorted({'pydantic', 'pydantic_ai'} & set(sys.modules)))"
    code = f"import sys, deep_summarization; deep_summarization.__all__; dir(deep_summarization); {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_every_public_name_can_be_had() -> None:
    import deep_summarization

    assert [name for name in deep_summarization.__all__ if getattr(deep_summarization, name) is None] == []
    assert list(deep_summarization.__all__) == sorted(deep_summarization.__all__, key=lambda n: (not n.isupper(), n))
