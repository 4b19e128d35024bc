"""Settings: `get("mail.max_size")`, or `section("mail")["max_size"]`."""

import tomllib
from pathlib import Path

_ALL = tomllib.loads((Path(__file__).parent.parent / "settings.toml").read_text())


def get(name):
    """Return a setting."""
    group, _, key = name.partition(".")
    return _ALL[group][key]


def section(group):
    """Return the settings of a group."""
    return _ALL[group]
