"""The configuration in effect as a file for `--agent`: an agent as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from deep_core.plugin_api import agent_values, read_agent_config, restricted_layers

from .settings import mask, setting_values

if TYPE_CHECKING:
    from deep_core import Kernel

__all__ = ["agent_document", "as_text"]


def agent_document(kernel: Kernel) -> tuple[dict[str, Any], list[str]]:
    """Return the agent that the configuration describes, and the dotted keys that are left out.

    Left out are secrets, which stay in the environment, and what an untrusted project's file adds.
    """
    config = kernel.config
    agent, _ = agent_values(config)
    model = read_agent_config(config).model.id
    if model is not None:  # Pydantic AI reads it too, at the top
        beside = {key: value for key, value in agent.pop("model").items() if key not in ("provider", "model")}
        agent |= {"model": beside} if beside else {}
    plugins: dict[str, Any] = {
        name: [entry for entry, _ in entries]
        for name in ("allow", "disable", "require")
        if (entries := config.plugin_list(name)) is not None
    }
    left_out: list[str] = []
    for name in config.plugin_names():
        settings = config.plugin(name)
        table: dict[str, Any] = {key: value.value for key, value in setting_values(settings).items()}
        table |= {"options": dict(settings.options)} if settings.options else {}
        plugins |= {name: table} if table else {}
        untrusted = settings.project_options.items()
        left_out += [f"{source} (not trusted): plugins.{name}.options.{option}" for option, (_, source) in untrusted]
    deep = {
        "agent": _without_secrets("agent", agent, left_out),
        "plugins": _without_secrets("plugins", plugins, left_out),
    }
    left_out += [
        f"{layer.source} (not trusted): agent.{key}" for layer in restricted_layers(config) for key in layer.section
    ]
    found = {"model": model} if model is not None else {}
    return {**found, "deep": {key: value for key, value in deep.items() if value}}, left_out


def _without_secrets(key: str, table: Mapping[str, Any], left_out: list[str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    shown = cast("dict[str, Any]", mask(key, table))
    for name, value in table.items():
        if isinstance(value, dict) and value:
            if inner := _without_secrets(f"{key}.{name}", cast("dict[str, Any]", value), left_out):
                kept[name] = inner
        elif shown[name] == value and _is_finite(value):
            kept[name] = _plain(value)
        else:
            left_out.append(f"{key}.{name}")
    return kept


def _plain(value: Any) -> Any:
    """What JSON has: TOML's dates and times become text, which options of these types read."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    return [_plain(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _is_finite(value: Any) -> bool:
    parts = cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        return all(map(_is_finite, cast("list[Any]", parts)))
    return not isinstance(value, float) or isfinite(value)


def as_text(document: Mapping[str, Any], *, as_json: bool) -> str:
    """Return it as YAML, or JSON where PyYAML is not installed, which YAML readers take too."""
    if not as_json:
        try:
            import yaml
        except ImportError:
            pass
        else:
            return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
