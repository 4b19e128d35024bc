"""Puts examples/sample-project into the wheel and the sdist, so that the demo works where only wheels are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SampleProject(BuildHookInterface[Any]):
    """Maps the one original to `deep_demo/sample`; nothing is copied into the source tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; `version` is `editable` for an installed checkout, which reads the original."""
        if version == "editable":
            return
        root = Path(self.root)
        packaged = root / "src" / "deep_demo" / "sample"
        if packaged.is_dir():
            return  # an unpacked sdist: it lies inside the package already
        original = root.parent.parent / "examples" / "sample-project"
        if not (original / "README.md").is_file():
            raise FileNotFoundError(f"no sample project at {original} nor at {packaged}: build from a whole checkout")
        inside = "src/deep_demo/sample" if self.target_name == "sdist" else "deep_demo/sample"
        for file in sorted(original.rglob("*")):
            parts = file.relative_to(original).parts
            if file.is_file() and not any(part.endswith(("cache__", "_cache")) for part in parts):
                build_data["force_include"][str(file)] = "/".join([inside, *parts])
