"""Agents as data: a file of Pydantic AI's `AgentSpec`. Its table `deep` makes it a deep agent, with plugins and policy.

`Agent.from_file` reads the same file: Pydantic AI ignores keys that it does not know.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic_ai import Agent, StructuredDict
from pydantic_ai.agent.spec import AgentSpec, load_capability_from_nested_spec
from pydantic_ai.exceptions import UserError

from deep_core import ConfigError, Kernel, MissingExtra
from deep_core.plugin_api import describe_error, read_agent_config, suggest

__all__ = ["DEEP", "agent_of_file", "is_agent_file"]

DEEP = "deep"
"""The key beside those of `AgentSpec`: what a `deep.toml` has."""
BACKEND = "local"
"""Where such an agent works if its file names no backend."""
_KEYS = ("$schema", *(name for name in AgentSpec.model_fields if name != "json_schema_path"))


def is_agent_file(place: str) -> bool:
    """Whether `--agent` names an agent as data."""
    return place.endswith((".yaml", ".yml", ".json"))


def agent_of_file(name: str, folder: str) -> Agent[Any, Any]:
    """Return the agent that a file describes.

    Args:
        name: the file.
        folder: where it is.

    Raises:
        ConfigError: the file is missing or wrong; the message names its key.
        MissingExtra: it is YAML, and PyYAML is not installed.
    """
    where = f"--agent {name}"
    data = _read(where, Path(folder, name).expanduser())
    for key in data:
        if key not in (*_KEYS, DEEP):
            raise ConfigError(f"{where}: unknown key {key!r}.{suggest(key, (*_KEYS, DEEP))}")
    deep = data.pop(DEEP, None)
    try:
        spec = AgentSpec.from_dict(data)
        if deep is None:
            return Agent.from_spec(spec, defer_model_check=True)
        return _deep_agent(spec, deep)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{where}: {path}: {first['msg']}") from None
    except ConfigError as error:
        # The kernel calls what is no file `code`.
        raise ConfigError(f"{where}: {str(error).removeprefix('code: ')}", plugin=error.plugin) from None
    except (UserError, ValueError, TypeError, ImportError) as error:
        raise ConfigError(f"{where}: {describe_error(error)}") from error


def _deep_agent(spec: AgentSpec, deep: object) -> Agent[Any, Any]:
    if not isinstance(deep, dict):
        raise ConfigError(f"{DEEP} must be a table: agent, plugins")
    if spec.deps_schema is not None:
        raise ConfigError("deps_schema: a deep agent's deps are its session")
    kernel = Kernel(config=_with_model(cast("dict[str, Any]", deep), spec.model))
    given: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "instructions": spec.instructions,
        "model_settings": cast("Any", spec.model_settings),
        "retries": spec.retries,
        "tool_timeout": spec.tool_timeout,
        "metadata": spec.metadata,
        "end_strategy": spec.end_strategy,
        "capabilities": [load_capability_from_nested_spec(each) for each in spec.capabilities],
        "output_type": None if spec.output_schema is None else StructuredDict(spec.output_schema),
        "backend": read_agent_config(kernel.config).runtime_policy.profile or BACKEND,
        "defer_model_check": True,
    }
    return kernel.create_agent(None, **{key: value for key, value in given.items() if value is not None})


def _with_model(deep: dict[str, Any], model: str | None) -> dict[str, Any]:
    """Put the model where `deep.agent.model` has what belongs to it, such as an address or others to fall back to."""
    agent = deep.get("agent", {})
    if model is None or not isinstance(agent, dict):
        return deep
    beside = cast("dict[str, Any]", agent).get("model")
    provider, colon, name = model.partition(":")
    own = {"provider": provider, "model": name} if colon else {"model": provider}
    return {**deep, "agent": {**agent, "model": {**(beside if isinstance(beside, dict) else {}), **own}}}


def _read(where: str, path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{where}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {describe_error(error)}") from None
    try:
        found: object = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: it must be a table of keys")
    return {**cast("dict[str, Any]", found)}


def _yaml(text: str) -> object:
    try:
        import yaml
    except ImportError:
        raise MissingExtra("sessions[yaml]") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
