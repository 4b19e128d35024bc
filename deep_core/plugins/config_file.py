"""Find and read configuration files, and remember which of them the user trusts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError, suggest
from ..tables import is_table

LISTS = ("allow", "disable", "require")
"""The keys of `[plugins]` that are lists of plugins; every other one is a plugin."""


class ConfigFile(NamedTuple):
    """A configuration file as it was read, once: what is parsed is what is trusted.

    Attributes:
        path: of the file.
        content: of the file.
        starts: a digest of the programs that it starts and that its trust covers; "" if it starts none.
    """

    path: Path
    content: bytes
    starts: str = ""

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        """Read a file. Raises ConfigError if it cannot be read."""
        try:
            return cls(path, path.read_bytes())
        except OSError as error:
            raise ConfigError(f"{path}: {error}") from error

    def declares_deep(self) -> bool:
        """Whether a pyproject has `[tool.deep]`, in any spelling. Raises ConfigError if it has, and is not TOML."""
        if b"tool" not in self.content or b"deep" not in self.content:
            return False  # most projects: tomllib takes 5 ms to import
        try:
            tool: object = self._parse().get("tool")
        except ConfigError:
            if b"tool.deep" in self.content:
                raise
            return False  # a template, for example
        return isinstance(tool, dict) and "deep" in tool

    def tables(self) -> dict[str, Any]:
        """Parse a TOML file: all of it, or `[tool.deep]` of a pyproject.

        Raises:
            ConfigError: not TOML, or with a top-level table that is not `agent` or `plugins`.
        """
        data = self._parse()
        for table in ("tool", "deep") if self.path.name == "pyproject.toml" else ():
            below: object = data.get(table, {})
            if not is_table(below):
                raise ConfigError(f"{self.path}: [tool.deep] must be a table")
            data = below
        return check_tables(str(self.path), data)

    def _parse(self) -> dict[str, Any]:
        import tomllib

        try:
            return tomllib.loads(self.content.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{self.path}: {error}") from error

    def is_trusted(self) -> bool:
        """Whether the user trusts this file with exactly this content, and with the programs that it starts."""
        return _trusted().get(self._key()) == self._digest()

    def trust(self) -> None:
        """Record this content as trusted; a change of the file ends the trust."""
        file = trust_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        known = {**_trusted(), self._key(): self._digest()}
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
        temporary.replace(file)

    def _key(self) -> str:
        # Where the file is found, not where a link leads: a link in another repository does not inherit trust.
        return str(self.path.parent.resolve() / self.path.name)

    def _digest(self) -> str:
        import hashlib  # 3 ms, only if there is a project file

        return hashlib.sha256(self.content + self.starts.encode()).hexdigest()


def check_tables(source: str, data: Mapping[str, Any]) -> dict[str, Any]:
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


def user_file() -> Path:
    """Return the user's configuration file (platformdirs: `~/.config/deep/config.toml` on Linux)."""
    from platformdirs import user_config_path

    return user_config_path("deep") / "config.toml"


def trust_file() -> Path:
    """Return the file that records which files the user trusts."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "trusted.json"


def project_files(start: Path | None = None) -> Iterator[ConfigFile]:
    """Yield each `deep.toml`, or `pyproject.toml` with `[tool.deep]`, in `start` and above it, nearest first.

    The search ends at the folder that holds `.git`, at the home directory, and at the root.

    Raises:
        ConfigError: a file cannot be read, or is a pyproject of deep's that is not TOML.
    """
    home = Path.home().resolve()
    for folder in _folders(start):
        for path in (folder / "deep.toml", folder / "pyproject.toml"):
            if path.is_file():
                file = ConfigFile.read(path)
                if path.name == "deep.toml" or file.declares_deep():
                    yield file
                    break
        if (folder / ".git").exists() or folder == home:
            return


def hiding_paths(file: ConfigFile, start: Path | None = None) -> Iterator[Path]:
    """Yield every path between `start` and a project's file that would hide the file if it existed."""
    home = file.path.parent.resolve()
    for folder in _folders(start):
        if folder == home:
            if file.path.name != "deep.toml":
                yield folder / "deep.toml"
            return
        yield from (folder / name for name in ("deep.toml", "pyproject.toml", ".git"))


def _folders(start: Path | None) -> tuple[Path, ...]:
    folder = (start or Path.cwd()).resolve()
    return (folder, *folder.parents)


def _trusted() -> dict[str, str]:
    try:
        return json.loads(trust_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
