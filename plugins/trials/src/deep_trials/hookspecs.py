"""The hook that this plugin owns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deep_core import hookspec

if TYPE_CHECKING:
    from deep_core import PluginContext

__all__ = ["deep_eval_suites"]


@hookspec(policy="collect", item="pathlib:Path")
def deep_eval_suites(context: PluginContext) -> Sequence[Path]:  # pyright: ignore[reportReturnType]
    """Add suites of tasks for `deep eval`: folders that hold a `suite.toml`.

    Called:
        Each time `deep eval` looks for a suite by its name.

    Result:
        `deep eval run NAME` finds the suite whose folder has that name. Two plugins with one name are an error that
        names both. A plugin that raises, or returns a wrong type, is left out.

    Example:
        from pathlib import Path
        from deep_core import hookimpl

        @hookimpl(of="trials")
        def deep_eval_suites(context):
            return [Path(__file__).parent / "suites" / "weather"]
    """
