"""Read settings from code, the environment, the project's file and the user's file, and limit what each may set.

The layers are plain data, without pydantic, so that listing plugins stays cheap; models validate `[agent]` and options
when an agent is created. The model may have written a project's file, so until the user trusts its content the file can
only set options and narrow policy (`restrict`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from ..errors import ConfigError, suggest, warn
from .settings import SETTINGS, PluginSettings, check_setting, join_rules

LISTS = ("allow", "disable", "require")


class ConfigLayer(NamedTuple):
    """One source of settings.

    Attributes:
        source: its name in messages: `code`, `environment`, or a file's path.
        data: its content: `{"agent": {...}, "plugins": {...}}`.
        trusted: whether it may widen policy.
        path: the file, if it is one.
        sealed: `[agent]` of an untrusted file, unchanged. Only `agent/config.py` opens it.
    """

    source: str
    data: Mapping[str, Any]
    trusted: bool = True
    path: Path | None = None
    sealed: Mapping[str, Any] = MappingProxyType({})


class Config(NamedTuple):
    """All layers, strongest first, each restricted to what it may set.

    Attributes:
        layers: the sources.
        ignored: keys of `[plugins]` that an untrusted file may not set, as `file: key`.
        places: files that the next start would trust if they existed: the user's, and the record of trusted files.
    """

    layers: tuple[ConfigLayer, ...] = ()
    ignored: tuple[str, ...] = ()
    places: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read."""
        return tuple(layer.path for layer in self.layers if layer.path is not None)

    @property
    def protected(self) -> tuple[Path, ...]:
        """The files that policy is read from, now or at the next start: the file tools must not write to them."""
        return (*self.files, *self.places)

    def plugin_list(self, name: str) -> tuple[tuple[str, str], ...] | None:
        """Return `plugins.allow`, `.disable` or `.require` as (entry, source) pairs; None if no layer has the key.

        `disable` and `require` add up over the layers. For `allow` the strongest layer wins.
        """
        out: list[tuple[str, str]] | None = None
        for layer in self.layers:
            value = layer.data.get("plugins", {}).get(name)
            if value is None:
                continue
            if not isinstance(value, list) or not all(isinstance(x, str) for x in cast("list[object]", value)):
                raise ConfigError(f"{layer.source}: plugins.{name} must be a list of names, not {value!r}")
            if name == "allow" and out is not None:
                break
            out = (out or []) + [(entry, layer.source) for entry in cast("list[str]", value)]
        return None if out is None else tuple(out)

    def plugin_names(self) -> dict[str, str]:
        """Return each plugin that has a section, with the section's source."""
        names: dict[str, str] = {}
        for layer in self.layers:
            for name, value in layer.data.get("plugins", {}).items():
                if name not in LISTS and isinstance(value, dict):
                    names.setdefault(name, layer.source)
        return names

    def plugin(self, name: str) -> PluginSettings:
        """Return the merged section of one plugin.

        Raises:
            ConfigError: an unknown key or a value of the wrong type, with its path and a suggestion.
        """
        merged: dict[str, Any] = {}
        sources: dict[str, str] = {}
        options: dict[str, Any] = {}
        project: dict[str, tuple[Any, str]] = {}
        added: dict[str, list[str | bool | None]] = {}
        for layer in self.layers:
            for key, value in layer.data.get("plugins", {}).get(name, {}).items():
                setting = check_setting(f"{layer.source}: plugins.{name}.{key}", key, value)
                if key == "options":
                    for option, given in value.items():
                        if option not in options and not layer.trusted:
                            project.setdefault(option, (given, layer.source))
                        elif option not in options:
                            options[option] = given
                            sources[f"options.{option}"] = layer.source
                elif setting.project == "added" and not layer.trusted:
                    added.setdefault(key, []).append(value)
                    sources[key] = f"{sources[key]} and {layer.source}" if key in sources else layer.source
                elif key not in merged:
                    merged[key] = tuple(cast("list[str]", value)) if isinstance(value, list) else value
                    # An untrusted layer may have added a rule, and so a source, before.
                    sources[key] = f"{layer.source} and {sources[key]}" if key in sources else layer.source
        merged |= {key: join_rules([merged.get(key), *rules]) for key, rules in added.items()}
        return PluginSettings(**merged, options=options, project_options=project, sources=sources)


def model_parts(model: str) -> dict[str, str | None]:
    """Return `provider:model` as the table `[agent.model]`."""
    provider, colon, name = model.partition(":")
    # A name without a provider is complete: no other layer's provider may be added to it.
    return {"provider": provider, "model": name} if colon else {"provider": None, "model": model}


def table_at(tree: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the table at a path; create it if it is missing. Raises ConfigError if a value is in the way."""
    for depth, key in enumerate(path):
        below: object = tree.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{'.'.join(path[: depth + 1])} is both a value and a table")
        tree = cast("dict[str, Any]", below)
    return tree


def put_at(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the value at a path."""
    table_at(tree, path[:-1])[path[-1]] = value


def restrict(layer: ConfigLayer) -> tuple[ConfigLayer, list[str]]:
    """Remove what only trusted layers may set from an untrusted one, and seal its `[agent]`.

    Returns:
        The layer, and the dotted keys that were removed from `[plugins]`.
    """
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, section in layer.data.get("plugins", {}).items():
        if name == "require":
            kept[name] = section
        elif not isinstance(section, dict) or name in LISTS:
            dropped.append(f"plugins.{name}")
        else:
            keep = kept.setdefault(name, {})
            for key, value in cast("dict[str, Any]", section).items():
                # An unknown key stays, so that it raises an error with its path.
                said = SETTINGS[key].project if key in SETTINGS else "taken"
                if said == "ignored" or (said == "added" and value is False):
                    dropped.append(f"plugins.{name}.{key}")
                else:
                    keep[key] = value
    sealed = layer.data.get("agent", {})
    return ConfigLayer(layer.source, {"plugins": kept}, trusted=False, path=layer.path, sealed=sealed), dropped


def ignored_message(source: object, keys: Iterable[str]) -> str:
    """Return the warning for keys that an untrusted file may not set."""
    return f"{source}: ignored {', '.join(keys)}: a project's file is trusted only after `deep config trust`"


_OURS = re.compile(r"^\s*\[+\s*tool\s*\.\s*deep\s*[.\]]", re.M)
"""Our table in a pyproject; `[tool.deepeval]` is not ours."""


def user_file() -> Path:
    """Return the user's configuration file (platformdirs: `~/.config/deep/config.toml` on Linux)."""
    from platformdirs import user_config_path

    return user_config_path("deep") / "config.toml"


def find_project_file(start: Path | None = None) -> Path | None:
    """Find the nearest `deep.toml`, or `pyproject.toml` with `[tool.deep]`, in `start` or a folder above it.

    The search ends at the folder that holds `.git`, at the home directory, and at the root.
    """
    folder = (start or Path.cwd()).resolve()
    home = Path.home().resolve()
    for directory in (folder, *folder.parents):
        if (directory / "deep.toml").is_file():
            return directory / "deep.toml"
        pyproject = directory / "pyproject.toml"
        if pyproject.is_file() and _OURS.search(pyproject.read_text(encoding="utf-8", errors="replace")):
            return pyproject
        if (directory / ".git").exists() or directory == home:
            return None
    return None


def read_file(path: Path) -> dict[str, Any]:
    """Read a TOML file: all of `deep.toml`, or `[tool.deep]` of a pyproject.

    Raises:
        ConfigError: unreadable, not TOML, or with a top-level table that is not `agent` or `plugins`.
    """
    import tomllib  # 5 ms, only if there is a file

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    for table in ("tool", "deep") if path.name == "pyproject.toml" else ():
        below: object = data.get(table, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{path}: [tool.deep] must be a table")
        data = cast("dict[str, Any]", below)
    return _checked(str(path), data)


def _checked(source: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Check a layer's tables: the rules of a misspelt table would be ignored.

    Raises:
        ConfigError: a top-level key other than `agent` and `plugins`, or a value that is not a table.
    """
    for key, value in data.items():
        if key not in ("agent", "plugins"):
            hint = suggest(key, ("agent", "plugins"))
            raise ConfigError(f"{source}: unknown table {key!r}.{hint} Known: agent, plugins")
        if not isinstance(value, Mapping):
            raise ConfigError(f"{source}: {key} must be a table")
    for name, section in data.get("plugins", {}).items():
        if name not in LISTS and not isinstance(section, Mapping):
            raise ConfigError(f"{source}: plugins.{name} must be a table; lists are {', '.join(LISTS)}")
    return {**data}


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read `DEEP_MODEL`, `DEEP_PLUGINS_DISABLE`, `DEEP_PLUGINS_ALLOW`, and `DEEP_A__B__C` for any dotted key."""
    data: dict[str, Any] = {}
    if environ.get("DEEP_MODEL"):
        put_at(data, ("agent", "model"), model_parts(environ["DEEP_MODEL"]))
    for name in ("allow", "disable"):
        text = environ.get(f"DEEP_PLUGINS_{name.upper()}")
        if text is not None:
            put_at(data, ("plugins", name), [part.strip() for part in text.split(",") if part.strip()])
    for key, text in sorted(environ.items()):
        path = tuple(key.removeprefix("DEEP_").lower().split("__"))
        if key.startswith("DEEP_") and len(path) > 1 and path[0] in ("agent", "plugins"):
            value = _env_value(path, text)
            try:
                put_at(data, path, model_parts(value) if path == ("agent", "model") and value == text else value)
            except ConfigError as error:
                raise ConfigError(f"environment: {error}") from None
    return _checked("environment", data)


def _env_value(path: tuple[str, ...], text: str) -> Any:
    table, key = path[0], "".join(path[2:3])
    types = SETTINGS[key].types if table == "plugins" and key in SETTINGS else ()
    if table == "agent" or text[:1] in ("[", "{") or "boolean" in types or "integer" in types:
        import tomllib

        try:
            return tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            return text
    return text  # the model of the plugin's options turns "3" into 3


def load_config(explicit: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, files: bool = True) -> Config:
    """Read every layer.

    Args:
        explicit: a file or a mapping that code named: trusted as code is, stronger than the environment.
        files: whether to read the environment, the project's file and the user's file.

    Raises:
        ConfigError: a file named by code does not exist, or any file is wrong.
    """
    layers: list[ConfigLayer] = []
    ignored: list[str] = []
    if isinstance(explicit, Mapping):
        layers.append(ConfigLayer("code", _checked("code", explicit)))
    elif explicit is not None:
        path = Path(explicit)
        layers.append(ConfigLayer(str(path), read_file(path), path=path.resolve()))
    environment = from_environment(os.environ) if files else {}
    if environment:
        layers.append(ConfigLayer("environment", environment))
    project = find_project_file() if files else None
    if project is not None and project.resolve() not in [layer.path for layer in layers]:
        layer = ConfigLayer(str(project), read_file(project), trusted=is_trusted(project), path=project.resolve())
        if not layer.trusted:
            layer, dropped = restrict(layer)
            ignored = [f"{project}: {key}" for key in dropped]
            if dropped:
                warn(ignored_message(project, dropped))
        layers.append(layer)
    if files and user_file().is_file():
        layers.append(ConfigLayer(str(user_file()), read_file(user_file()), path=user_file().resolve()))
    return Config(tuple(layers), tuple(ignored), (user_file(), _trust_file()) if files else ())


def _trust_file() -> Path:
    from platformdirs import user_data_path

    return user_data_path("deep") / "trusted.json"


def _digest(path: Path) -> str:
    import hashlib  # 3 ms, only if there is a project file

    return hashlib.sha256(path.read_bytes()).hexdigest()


def _trusted() -> dict[str, str]:
    try:
        return json.loads(_trust_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def is_trusted(path: Path) -> bool:
    """Whether the user trusts this file with exactly this content."""
    return _trusted().get(str(path.resolve())) == _digest(path)


def trust(path: Path) -> None:
    """Record the file's content as trusted; a change of the file ends the trust."""
    file = _trust_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    known = {**_trusted(), str(path.resolve()): _digest(path)}
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    temporary.replace(file)
