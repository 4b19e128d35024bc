"""The configuration in effect: every value with its source, secrets masked; and its JSON schema."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from deep_core import AgentConfig, Kernel, PluginOptions
from deep_core.plugin_api import (
    SETTINGS,
    Config,
    PluginSettings,
    agent_values,
    field_docs,
    read_agent_config,
    restricted_layers,
    validate_options,
)

from ..terminal.screen import MASK, looks_secret, redact, redact_args

__all__ = ["Value", "json_schema", "mask", "option_values", "setting_values", "values_of_agent"]

DEFAULT = "default"


@dataclass(frozen=True)
class Value:
    """One value in effect and its source: `environment`, a file's path, or `default`."""

    value: Any
    source: str

    def to_json(self) -> dict[str, Any]:
        """The value in `deep config show --json`."""
        return {"value": self.value, "source": self.source}


def values_of_agent(config: Config) -> dict[str, Value]:
    """The values of `[agent]`, by dotted key.

    Raises:
        ConfigError: a key or value is wrong.
    """
    _, sources = agent_values(config)
    flat = dict(_leaves(read_agent_config(config).model_dump(mode="json")))
    out = {key: Value(mask(key, value), _source(key, sources)) for key, value in flat.items()}
    for layer in restricted_layers(config):
        # An untrusted project's policy is added to these values, it replaces none.
        for key, value in _leaves(layer.section):
            out[f"{key} (added)"] = Value(mask(key, value), layer.source)
    return out


def setting_values(settings: PluginSettings) -> dict[str, Value]:
    """The settings of one plugin in `[plugins.<name>]`, without its options."""
    out: dict[str, Value] = {}
    for key, source in settings.sources.items():
        if not key.startswith("options."):
            value: Any = getattr(settings, key)
            out[key] = Value(list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value, source)
    return out


def option_values(settings: PluginSettings, model: type[PluginOptions] | None, plugin: str) -> dict[str, Value]:
    """One plugin's options in effect; as written, if the plugin is not active.

    Raises:
        ConfigError: an option is unknown or its value wrong.
    """
    values: Mapping[str, Any] = settings.options
    sources: Mapping[str, str] = {key: settings.sources[f"options.{key}"] for key in values}
    if model is not None:
        options, sources = validate_options(plugin, model, settings)
        values = options.model_dump(mode="json")  # a SecretStr becomes asterisks
    return {key: Value(mask(key, value), sources.get(key, DEFAULT)) for key, value in values.items()}


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        # interrupt_on maps tool names to answers: one value, as in the configuration.
        if isinstance(value, dict) and value and key != "interrupt_on":
            yield from _leaves(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            yield prefix + key, cast("Any", value)


def _source(key: str, sources: Mapping[str, str]) -> str:
    for path, source in sources.items():
        # `model = "openai:x"` is one key in a file, but two values here.
        if key == path or key.startswith(path + "."):
            return source
    return DEFAULT


def mask(key: str, value: Any) -> Any:
    """Mask secrets in a value: those with a secret's name, and those in the environment."""
    if isinstance(value, str):
        if key.endswith("_env") and (value in os.environ or re.fullmatch(r"[A-Z_][A-Z0-9_]*", value)):
            return value  # the name of a variable, which has the secret
        return MASK if value and looks_secret(key) else redact(value)
    if isinstance(value, dict):
        if key.rpartition(".")[2] in ("env", "headers"):  # of a server: whatever their names, they may be secrets
            texts = cast("dict[str, Any]", value).items()
            return {name: item if re.fullmatch(r"\$\{\w+\}", str(item)) else MASK for name, item in texts}
        return {name: mask(f"{key}.{name}", item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        if all(isinstance(item, str) for item in cast("list[Any]", value)) and not looks_secret(key):
            return redact_args(cast("list[str]", value))
        return [mask(key, item) for item in cast("list[Any]", value)]
    # A PIN may be a number; a switch is never a secret.
    return MASK if value is not None and not isinstance(value, bool) and looks_secret(key) else value


def json_schema(kernel: Kernel) -> dict[str, Any]:
    """The JSON schema of `deep.toml`: `[agent]`, the lists, and every active plugin's section with its options."""
    from pydantic.json_schema import models_json_schema

    models = kernel.option_models()
    schemas, definitions = models_json_schema(
        [(model, "validation") for model in (AgentConfig, *models.values())],
        ref_template="#/$defs/{model}",
    )
    agent = definitions["$defs"]["AgentConfig"]
    # Text is accepted too: model = "openai:gpt-5.2".
    agent["properties"]["model"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/ModelSection"}]}
    names: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
    sections = {name: _section(schemas[(model, "validation")]) for name, model in models.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "deep.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "agent": schemas[(AgentConfig, "validation")],
            "plugins": {
                "type": "object",
                "properties": {"allow": names, "disable": names, "require": names, **sections},
                "additionalProperties": _section({"type": "object"}),
            },
        },
        "$defs": definitions["$defs"],
    }


def _section(options: dict[str, Any]) -> dict[str, Any]:
    docs = field_docs(PluginSettings)
    keys = {key: {"type": [*s.types], "description": docs[key], **s.schema} for key, s in SETTINGS.items()}
    return {"type": "object", "additionalProperties": False, "properties": {**keys, "options": options}}
