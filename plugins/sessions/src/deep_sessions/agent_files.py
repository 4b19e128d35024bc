"""Agents as data: a file of Pydantic AI's `AgentSpec`. Its table `deep` makes it a deep agent, with plugins and policy.

`Agent.from_file` reads the same file: Pydantic AI ignores keys that it does not know.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic_ai import Agent, StructuredDict
from pydantic_ai.agent.spec import AgentSpec, get_capability_registry, load_capability_from_nested_spec
from pydantic_ai.exceptions import UserError

from deep_core import ConfigError, Kernel, MissingExtra
from deep_core.plugin_api import describe_error, read_agent_config, suggest

__all__ = ["DEEP", "agent_of_file", "is_agent_file"]

DEEP = "deep"
"""The key beside those of `AgentSpec`: what a `deep.toml` has."""
BACKEND = "local"
"""Where such an agent works if its file names no backend."""
MOST_VALUES = 100_000
"""In a file, those of an alias each time: no billion laughs."""
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
        known = get_capability_registry()
        if missing := [each.name for each in spec.capabilities if each.name not in known]:
            raise ConfigError(f"capabilities: Pydantic AI has no {missing[0]!r}.{suggest(missing[0], known)}")
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
    instructions: object = spec.instructions
    texts = cast("list[object]", instructions if isinstance(instructions, list) else [instructions])
    if not all(isinstance(text, str | None) for text in (*texts, spec.description)):
        raise ConfigError("a template has no values here; write the text in deep.agent.prompt.system, with variables")
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
    if isinstance(beside, str) or (isinstance(beside, dict) and own.keys() & beside.keys()):
        raise ConfigError("the model is named twice: in model, and in deep.agent.model")
    return {**deep, "agent": {**agent, "model": {**(beside if isinstance(beside, dict) else {}), **own}}}


def _read(where: str, path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{where}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: it is no text in UTF-8") from None
    try:
        found = _json(text) if path.suffix == ".json" else _yaml(text)
        _check_size(found)
    except ValueError as error:
        raise ConfigError(f"{where}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{where}: it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: it must be a table of keys")
    return {**cast("dict[str, Any]", found)}


def _check_size(found: object) -> None:
    left: list[object] = [found]
    for _ in range(MOST_VALUES):
        if not left:
            return
        value = left.pop()
        if isinstance(value, dict):
            left += cast("dict[str, object]", value).values()
        elif isinstance(value, list):
            left += cast("list[object]", value)
    raise ValueError(f"it has more than {MOST_VALUES:,} values")


def _json(text: str) -> object:
    def table(pairs: list[tuple[str, object]]) -> dict[str, object]:
        _check_names([name for name, _ in pairs])
        return dict(pairs)

    def constant(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, object_pairs_hook=table, parse_constant=constant)


def _check_names(names: list[str], where: str = "") -> None:
    # Readers take the last of two, and what the first one said of the policy is gone.
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise ValueError(f"{where}the key {twice[0]!r} stands twice in one table")


def _yaml(text: str) -> object:
    try:
        import yaml
    except ImportError:
        raise MissingExtra("sessions[yaml]") from None
    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506 - a safe loader that takes less
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            where = f"line {node.start_mark.line + 1}: "
            _check_names([key.value for key, _ in node.value if isinstance(key.value, str)], where)
            for key, _ in node.value:
                if not key.tag.endswith((":str", ":merge")):  # `on`, `no`, `1`
                    raise ValueError(f"{where}the key {key.value} is no text; write it in quotes")
            return super().construct_mapping(node, deep)

    return Loader
