"""Read settings from code, the environment, the project's file and the user's file, and limit what each may set.

The layers are plain data, without pydantic, so that listing plugins stays cheap; models validate `[agent]` and options
when an agent is created. The model may have written a project's file, so until the user trusts its content the file can
only set options and narrow policy (`restrict`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import ConfigError, warn
from ..tables import is_list, is_table, is_texts
from .config_file import LISTS, ConfigFile, check_tables, hiding_paths, project_files, trust_file, user_file
from .settings import SETTINGS, PluginSettings, check_setting, join_rules


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
        places: files that the next start would read if they existed: the user's, the record of trusted files, and those
            that would hide the project's file.
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

    def with_lists(self, **lists: Iterable[str] | None) -> Config:
        """Return the configuration with the lists of plugins that code gave as its strongest layer."""
        given = {name: [*plugins] for name, plugins in lists.items() if plugins is not None}
        return self._replace(layers=(ConfigLayer("code", {"plugins": given}), *self.layers)) if given else self

    def plugin_list(self, name: str) -> tuple[tuple[str, str], ...] | None:
        """Return `plugins.allow`, `.disable` or `.require` as (entry, source) pairs; None if no layer has the key.

        `disable` and `require` add up over the layers. For `allow` the strongest layer wins.
        """
        out: list[tuple[str, str]] | None = None
        for layer in self.layers:
            value = layer.data.get("plugins", {}).get(name)
            if value is None:
                continue
            if not is_texts(value):
                raise ConfigError(f"{layer.source}: plugins.{name} must be a list of names, not {value!r}")
            if name == "allow" and out is not None:
                break
            out = (out or []) + [(entry, layer.source) for entry in value]
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
                    merged[key] = tuple(value) if is_list(value) else value
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
        if not is_table(below):
            raise ConfigError(f"{'.'.join(path[: depth + 1])} is both a value and a table")
        tree = below
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
        elif not is_table(section) or name in LISTS:
            dropped.append(f"plugins.{name}")
        else:
            keep = kept.setdefault(name, {})
            for key, value in section.items():
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
    return check_tables("environment", data)


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
    if isinstance(explicit, Mapping):
        layers = [ConfigLayer("code", check_tables("code", explicit))]
    else:
        layers = [] if explicit is None else [_layer(ConfigFile.read(Path(explicit)))]
    if not files:
        return Config(tuple(layers))
    ignored: list[str] = []
    hiding: Iterable[Path] = ()
    if environment := from_environment(os.environ):
        layers.append(ConfigLayer("environment", environment))
    nearest_first = project_files()
    project = next(nearest_first, None)
    if project is not None and project.path.resolve() not in [layer.path for layer in layers]:
        layer = _layer(project, trusted=project.is_trusted())
        hiding = hiding_paths(project)
        if not layer.trusted:
            layer, dropped = restrict(layer)
            ignored = [f"{project.path}: {key}" for key in dropped]
            if dropped:
                warn(ignored_message(project.path, dropped))
            if (hidden := next(nearest_first, None)) is not None:
                warn(f"{hidden.path} is not read, because {project.path} is nearer; `deep config trust` confirms that")
        layers.append(layer)
    if (user := user_file()).is_file():
        layers.append(_layer(ConfigFile.read(user)))
    return Config(tuple(layers), tuple(ignored), (user, trust_file(), *hiding))


def _layer(file: ConfigFile, *, trusted: bool = True) -> ConfigLayer:
    return ConfigLayer(str(file.path), file.tables(), trusted=trusted, path=file.path.resolve())
