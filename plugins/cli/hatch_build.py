"""Puts the template and the list of plugins into the wheel and the sdist, for `deep new` and `deep plugins search`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TEMPLATE = "cookiecutter-plugin"
PLUGINS = "plugins.json"


class PluginTemplate(BuildHookInterface[Any]):
    """Maps the originals to `deep_cli/cookiecutter-plugin` and `deep_cli/plugins.json`; nothing is copied here."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; `version` is `editable` for an installed checkout, which reads the original."""
        if version == "editable":
            return
        root = Path(self.root)
        packaged = root / "src" / "deep_cli" / TEMPLATE
        if packaged.is_dir():
            return  # an unpacked sdist: it lies inside the package already
        original = root.parent.parent / TEMPLATE
        if not (original / "cookiecutter.json").is_file():
            raise FileNotFoundError(f"no template at {original} nor at {packaged}: build from a whole checkout")
        package = "src/deep_cli" if self.target_name == "sdist" else "deep_cli"
        inside = f"{package}/{TEMPLATE}"
        build_data["force_include"][str(root.parent.parent / "docs" / PLUGINS)] = f"{package}/{PLUGINS}"
        for file in sorted(original.rglob("*")):
            parts = file.relative_to(original).parts
            if file.is_file() and not any(part.endswith(("cache__", "_cache")) for part in parts):
                build_data["force_include"][str(file)] = "/".join([inside, *parts])
