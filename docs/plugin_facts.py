"""Print what the plugins of this checkout bring and cost, as JSON: `generate.py` runs this in an empty directory.

The facts come from the sources and from one agent with every plugin and no configuration, so that they are the same on
every machine.
"""

from __future__ import annotations

import json
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
NOT_SAID = ("deep_options", "deep_hookspecs", "deep_state", "deep_toolsets", "deep_session_methods")
"""Hooks that say nothing about what a user gets, or that the list of tools says better."""


def projects() -> dict[str, dict[str, Any]]:
    """Return pyproject's table of every plugin in this checkout, by name; of commands alone, by the distribution's."""
    found: dict[str, dict[str, Any]] = {}
    for path in ROOT.glob("plugins/*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        points = project.get("entry-points", {})
        alone = {project["name"].removeprefix("deep-"): ""} if "deep.commands" in points else {}
        found |= dict.fromkeys(points.get("deep", alone), project)
    return dict(sorted(found.items()))


def modules_of_import(module: str) -> int:
    """Import a module; return how many modules that loaded, without those of the standard library."""
    before = set(sys.modules)
    import_module(module)
    ours = (name.partition(".")[0] for name in set(sys.modules) - before)
    return sum(top != "deep_core" and top not in sys.stdlib_module_names for top in ours)


def main() -> None:
    """Print the facts."""
    import_module("deep_core")  # first: what plugins cost beyond the kernel
    found = projects()
    points = {name: project["entry-points"].get("deep", {}).get(name) for name, project in found.items()}
    modules = {name: modules_of_import(point) for name, point in points.items() if point}
    from pydantic_ai.models.test import TestModel

    from deep_core import Kernel

    plugins = [sys.modules[point] for point in points.values() if point]
    with Kernel(plugins=plugins, discover=False, data_dir=Path.cwd() / "data") as kernel:
        explanation = kernel.explain(kernel.create_agent(TestModel(), backend="local"))
        hooks = {name: record.hooks or () for name, record in kernel.plugins.items()}
    tokens = explanation.by_plugin()
    facts = [
        {
            "name": name,
            "distribution": project["name"],
            "about": project["description"],
            "tools": [tool.name for tool in explanation.tools if tool.plugin == name],
            "hooks": [hook for hook in hooks.get(name, ()) if hook not in NOT_SAID],
            "commands": list(project["entry-points"].get("deep.commands", {})),
            "tokens": tokens.get(name, 0),
            "modules": modules.get(name, 0),
            "requires": sorted(
                each.name
                for each in map(Requirement, project.get("dependencies", ()))
                if not each.name.startswith("deep-")
            ),
        }
        for name, project in found.items()
    ]
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
