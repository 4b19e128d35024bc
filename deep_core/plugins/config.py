"""Where settings come from: code, environment, the project's file, the user's file; and what each may say.

Read as plain data, without pydantic, so that listing plugins stays cheap; `[agent]` and options are validated by
their models when an agent is made. A project's file is one that the model may have written, so until the user has
trusted its content it can only set options and narrow policy (`restrict`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from ..errors import ConfigError, suggest, warn

__all__ = ["Config", "ConfigLayer", "PluginSettings", "find_project_file", "load_config", "trust", "user_file"]

LISTS = ("allow", "disable", "require")
SETTINGS = ("enabled", "order", "prefix", "tools", "approve", "defer", "replaces", "options")
PROJECT_PLUGIN = ("approve", "defer", "options")
"""What an untrusted project may set of a plugin; `approve` only adds, trusted options are taken out later."""
PROJECT_AGENT = ("tool_filter", "interrupt_on", "tools_policy")
"""What an untrusted project may say of the agent; each can only narrow (`restrict`)."""


class ConfigLayer(NamedTuple):
    """One source of settings.

    Attributes:
        source: what to call it in messages: `environment`, or a file's path.
        data: its content: `{"agent": {...}, "plugins": {...}}`.
        trusted: whether it may widen policy.
        path: the file, if it is one.
    """

    source: str
    data: Mapping[str, Any]
    trusted: bool = True
    path: Path | None = None


class PluginSettings(NamedTuple):
    """`[plugins.<name>]`, merged from every layer; `sources` tells where each key came from.

    Of `options`, `untrusted_options` come from a layer that may not set trusted ones (option -> source), and
    `trusted_options` are what the layers that may say of these (option -> value and source): see `believing`.
    """

    enabled: bool = True
    order: int | Mapping[str, int] = 0
    prefix: str = ""
    tools: str | None = None
    approve: str | bool | None = None
    defer: str | bool | None = None
    replaces: tuple[str, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})
    untrusted_options: Mapping[str, str] = MappingProxyType({})
    trusted_options: Mapping[str, tuple[Any, str]] = MappingProxyType({})
    sources: Mapping[str, str] = MappingProxyType({})

    def believing(self, trusted_only: Callable[[str], bool]) -> PluginSettings:
        """As it is without what an untrusted layer says of the options that it may not set."""
        options, sources, untrusted = dict(self.options), dict(self.sources), dict(self.untrusted_options)
        for option in filter(trusted_only, self.untrusted_options):
            del options[option], sources[f"options.{option}"], untrusted[option]
            if option in self.trusted_options:  # of a weaker layer, which this one hid
                options[option], sources[f"options.{option}"] = self.trusted_options[option]
        return self._replace(options=options, sources=sources, untrusted_options=untrusted)

    def order_in(self, hook: str) -> int:
        """The order for one hook: `order = 10`, or `order.history_processors = 10`; 0 where nothing is said."""
        if isinstance(self.order, int):
            return self.order
        return self.order.get(hook.removeprefix("deep_"), 0)


class Config(NamedTuple):
    """All layers, strongest first, already restricted to what each may say.

    Attributes:
        layers: the sources.
        ignored: what untrusted ones said and may not, as `file: key`.
        places: files that would be believed if they were there: the user's, and the record of what is trusted.
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
        """What policy is read from, now or at the next start: the file tools must not write to it."""
        return (*self.files, *self.places)

    def plugin_list(self, name: str) -> tuple[tuple[str, str], ...] | None:
        """`plugins.allow`, `.disable` or `.require`: (entry, source) pairs; None where no layer has it.

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
        """Plugins that have a section, and the source of it."""
        names: dict[str, str] = {}
        for layer in self.layers:
            for name, value in layer.data.get("plugins", {}).items():
                if name not in LISTS and isinstance(value, dict):
                    names.setdefault(name, layer.source)
        return names

    def plugin(self, name: str) -> PluginSettings:
        """The merged section of one plugin.

        Raises:
            ConfigError: an unknown key or a value of the wrong type, with its path and a suggestion.
        """
        merged: dict[str, Any] = {}
        sources: dict[str, str] = {}
        options: dict[str, Any] = {}
        untrusted: dict[str, str] = {}
        believed: dict[str, tuple[Any, str]] = {}
        approvals: list[str] = []
        for layer in self.layers:
            section = layer.data.get("plugins", {}).get(name)
            if section is None:
                continue
            for key, value in section.items():
                _check_setting(f"{layer.source}: plugins.{name}.{key}", key, value)
                if key == "options":
                    for option, setting in value.items():
                        if option not in options:
                            options[option] = setting
                            sources[f"options.{option}"] = layer.source
                            if not layer.trusted:
                                untrusted[option] = layer.source
                        elif layer.trusted and option in untrusted:
                            believed.setdefault(option, (setting, layer.source))
                elif key == "approve" and not layer.trusted:
                    approvals.append("everything" if value is True else value)
                    sources["approve"] = f"{sources['approve']} and {layer.source}" if key in sources else layer.source
                elif key not in merged:
                    merged[key] = value
                    # What an untrusted layer adds to `approve` has a source of its own.
                    sources[key] = f"{layer.source} and {sources[key]}" if key in sources else layer.source
        if approvals:
            merged["approve"] = _widest(merged.get("approve"), approvals)
        if "replaces" in merged:
            merged["replaces"] = tuple(merged["replaces"])
        return PluginSettings(
            **merged, options=options, untrusted_options=untrusted, trusted_options=believed, sources=sources
        )

    def agent(self) -> tuple[dict[str, Any], dict[str, str]]:
        """`[agent]`, merged, and the source of each dotted key."""
        merged: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for layer in self.layers:
            for path, value in _leaves(_agent_section(layer)) if layer.trusted else ():
                dotted = ".".join(path)
                if value == {} and path[-1] != "interrupt_on":
                    _table(merged, path)  # says nothing, but its name must be one that there is
                elif not any(dotted == key or dotted.startswith(key + ".") for key in sources):
                    _put(merged, path, value)
                    sources[dotted] = layer.source
        return merged, sources

    def narrowing(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """What untrusted layers say of the agent: (source, section), to be added to its policy."""
        for layer in self.layers:
            section = layer.data.get("agent", {})
            if not layer.trusted and section:
                yield layer.source, section


def _widest(trusted: object, added: list[str]) -> str | bool:
    if trusted is True or "everything" in added:
        return True
    parts = [f"({text})" for text in ([trusted] if isinstance(trusted, str) else []) + added]
    return " | ".join(parts)


def _check_setting(where: str, key: str, value: object) -> None:
    if key not in SETTINGS:
        raise ConfigError(f"{where}: unknown key.{suggest(key, SETTINGS)} Known: {', '.join(SETTINGS)}")
    wrong = {
        "enabled": not isinstance(value, bool),
        "order": not isinstance(value, int | dict) or isinstance(value, bool),
        "prefix": not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*|", value),
        "tools": not isinstance(value, str),
        "approve": not isinstance(value, bool | str),
        "defer": not isinstance(value, bool | str),
        "replaces": not isinstance(value, list) or not all(isinstance(x, str) for x in cast("list[object]", value)),
        "options": not isinstance(value, dict),
    }[key]
    if wrong:
        wanted = {"order": "a number or a table of hook = number", "replaces": 'a list like ["filesystem:read_file"]'}
        kinds = {
            "enabled": "true or false",
            "prefix": "text: letters, digits, _ and -, a letter first",
            "tools": "a tool expression",
            "options": "a table",
        }
        expected = wanted.get(key) or kinds.get(key, "true, false or a tool expression")
        raise ConfigError(f"{where}: must be {expected}, not {value!r}")


def _agent_section(layer: ConfigLayer) -> Mapping[str, Any]:
    """`[agent]` of a layer, with a model given as text taken apart, so that layers can be merged key by key."""
    section: Mapping[str, Any] = layer.data.get("agent", {})
    model = section.get("model")
    return {**section, "model": model_parts(model)} if isinstance(model, str) else section


def model_parts(model: str) -> dict[str, str | None]:
    """`provider:model` as the table `[agent.model]`."""
    provider, colon, name = model.partition(":")
    # Without a provider it is a whole name: no other layer's provider goes with it.
    return {"provider": provider, "model": name} if colon else {"provider": None, "model": model}


def _leaves(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        # interrupt_on maps tool names to answers: one value, not a tree of settings.
        if isinstance(value, dict) and value and key != "interrupt_on":
            yield from _leaves(cast("dict[str, Any]", value), (*path, key))
        else:
            yield (*path, key), value


def _table(tree: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for depth, key in enumerate(path):
        below: object = tree.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{'.'.join(path[: depth + 1])} is both a value and a table")
        tree = cast("dict[str, Any]", below)
    return tree


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    _table(tree, path[:-1])[path[-1]] = value


def restrict(layer: ConfigLayer) -> tuple[ConfigLayer, list[str]]:
    """An untrusted layer without what only trusted ones may say, and the dotted keys that were taken out."""
    kept: dict[str, Any] = {"plugins": {}, "agent": {}}
    dropped: list[str] = []
    for name, section in layer.data.get("plugins", {}).items():
        if name == "require":
            kept["plugins"][name] = section
        elif not isinstance(section, dict) or name in LISTS:
            dropped.append(f"plugins.{name}")
        else:
            keep = kept["plugins"].setdefault(name, {})
            for key, value in cast("dict[str, Any]", section).items():
                if key not in SETTINGS or (key in PROJECT_PLUGIN and not (key == "approve" and value is False)):
                    keep[key] = value  # an unknown key stays: it is reported with its path
                else:
                    dropped.append(f"plugins.{name}.{key}")
    for key, value in layer.data.get("agent", {}).items():
        policy = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if key == "tools_policy":
            narrow = {
                k: v
                for k, v in policy.items()
                if (k == "enabled" and v is False)
                or k == "allow_list"
                or (k == "require_approval_by_default" and v is True)
            }
            kept["agent"][key] = narrow
            dropped.extend(f"agent.{key}.{k}" for k in policy if k not in narrow)
        elif key == "interrupt_on" and (value is False or False in policy.values()):
            kept["agent"][key] = {k: v for k, v in policy.items() if v is not False}
            dropped.append(f"agent.{key} = false")
        elif key in PROJECT_AGENT:
            kept["agent"][key] = value
        else:
            dropped.append(f"agent.{key}")
    return ConfigLayer(layer.source, kept, trusted=False, path=layer.path), dropped


_OURS = re.compile(r"^\s*\[+\s*tool\s*\.\s*deep\s*[.\]]", re.M)
"""A table of ours in a pyproject; `[tool.deepeval]` is not."""


def user_file() -> Path:
    """The user's configuration file (platformdirs: `~/.config/deep/config.toml` on Linux)."""
    from platformdirs import user_config_path

    return user_config_path("deep") / "config.toml"


def find_project_file(start: Path | None = None) -> Path | None:
    """The nearest `deep.toml`, or `pyproject.toml` with `[tool.deep]`, in `start` or a folder above it.

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
    """A TOML file's content: all of `deep.toml`, `[tool.deep]` of a pyproject.

    Raises:
        ConfigError: unreadable, not TOML, or with a top-level table that is not `agent` or `plugins`.
    """
    import tomllib  # 5 ms, for those who have a file

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
    """A layer's tables as they should be: a misspelt one would be rules that nobody reads.

    Raises:
        ConfigError: a top-level table that is not `agent` or `plugins`, or one that is no table.
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
    """`DEEP_MODEL`, `DEEP_PLUGINS_DISABLE`, `DEEP_PLUGINS_ALLOW`, and `DEEP_A__B__C` for any dotted key."""
    data: dict[str, Any] = {}
    if environ.get("DEEP_MODEL"):
        _put(data, ("agent", "model"), model_parts(environ["DEEP_MODEL"]))
    for name in ("allow", "disable"):
        text = environ.get(f"DEEP_PLUGINS_{name.upper()}")
        if text is not None:
            _put(data, ("plugins", name), [part.strip() for part in text.split(",") if part.strip()])
    for key, text in sorted(environ.items()):
        path = tuple(key.removeprefix("DEEP_").lower().split("__"))
        if key.startswith("DEEP_") and len(path) > 1 and path[0] in ("agent", "plugins"):
            value = _env_value(path, text)
            try:
                _put(data, path, model_parts(value) if path == ("agent", "model") and value == text else value)
            except ConfigError as error:
                raise ConfigError(f"environment: {error}") from None
    return _checked("environment", data)


def _env_value(path: tuple[str, ...], text: str) -> Any:
    setting = path[2] if len(path) > 2 and path[0] == "plugins" else ""
    structured = text[:1] in ("[", "{") or setting in ("enabled", "order", "approve", "defer") or path[:1] == ("agent",)
    if structured:
        import tomllib

        try:
            return tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            return text
    return text  # an option's own model turns "3" into 3


def load_config(explicit: str | os.PathLike[str] | Mapping[str, Any] | None = None, *, files: bool = True) -> Config:
    """Read every layer.

    Args:
        explicit: a file or a mapping that code named: trusted as code is, stronger than the environment.
        files: whether the environment, the project's file and the user's file are looked for.

    Raises:
        ConfigError: a file named by code is not there, or any file is wrong.
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
        layers.append(layer)
    if files and user_file().is_file():
        layers.append(ConfigLayer(str(user_file()), read_file(user_file()), path=user_file().resolve()))
    if ignored:
        keys = ", ".join(key.partition(": ")[2] for key in ignored)
        warn(f"{project}: ignored {keys}: a project's file is trusted only after `deep config trust`")
    return Config(tuple(layers), tuple(ignored), (user_file(), _trust_file()) if files else ())


def _trust_file() -> Path:
    from platformdirs import user_data_path

    return user_data_path("deep") / "trusted.json"


def _digest(path: Path) -> str:
    import hashlib  # 3 ms, for those who have a project file

    return hashlib.sha256(path.read_bytes()).hexdigest()


def _trusted() -> dict[str, str]:
    try:
        return json.loads(_trust_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def is_trusted(path: Path) -> bool:
    """Whether the user has trusted this file with exactly this content."""
    return _trusted().get(str(path.resolve())) == _digest(path)


def trust(path: Path) -> None:
    """Record the file's content as trusted; a later change of it ends that."""
    file = _trust_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    known = {**_trusted(), str(path.resolve()): _digest(path)}
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    temporary.replace(file)
