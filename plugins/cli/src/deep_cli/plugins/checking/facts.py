"""Print what the plugins of one distribution bring and cost, as JSON. Runs in the environment that is checked.

A script of this folder: `python facts.py DISTRIBUTION CONFIG`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deep_core import Kernel
from deep_core.plugin_api import canonical, find_plugins

__all__ = ["facts", "main"]


def facts(distribution: str, config: Path) -> list[dict[str, Any]]:
    """Return a table for each plugin of a distribution, with the options of a configuration file."""
    found = find_plugins()
    records = [record for record in found.records if canonical(record.distribution or "") == canonical(distribution)]
    with TemporaryDirectory() as data:
        return [_plugin(record.name, Path(data), config) for record in records]


def _plugin(name: str, data: Path, config: Path) -> dict[str, Any]:
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.workspaces import UnavailableWorkspace

    with Kernel(data_dir=data, config=config) as kernel:
        record = kernel.plugins[name]
        row: dict[str, Any] = {
            "name": name,
            "status": record.status,
            "reason": record.reason,
            "version": record.version,
        }
        if record.status != "active":
            return {**row, "hooks": [], "tools": [], "tokens": None}
        explanation = kernel.explain(
            kernel.create_agent(TestModel(), backend=UnavailableWorkspace("a check only looks"))
        )
        tools = [{"name": tool.name, "tags": sorted(tool.tags)} for tool in explanation.tools if tool.plugin == name]
        tokens = explanation.by_plugin().get(name, 0)
        model = kernel.option_models().get(name)
        options = [*model.model_fields] if model else []
        incidents = [str(incident) for incident in kernel.incidents if incident.plugin == name]
        found = {"hooks": [*(record.hooks or ())], "tools": tools, "tokens": tokens}
        return {**row, **found, "options": options, "incidents": incidents}


def main() -> None:
    """Print the facts."""
    print(json.dumps(facts(sys.argv[1], Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
