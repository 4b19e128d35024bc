"""The environment of commands: a short list of harmless variables, and those that the configuration names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import cast

from deep_core.plugin_api import absolute_path

__all__ = ["INHERITED", "PassedEnv", "check_env", "command_environment", "passed_environment"]

PassedEnv = Mapping[str, str] | Iterable[str]
"""Names of host variables to pass, or a mapping of names to values."""

INHERITED = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
        # List the categories by name, not by prefix: hosts send arbitrary values through ssh as LC_*.
        "LC_ADDRESS",
        "LC_ALL",
        "LC_COLLATE",
        "LC_CTYPE",
        "LC_IDENTIFICATION",
        "LC_MEASUREMENT",
        "LC_MESSAGES",
        "LC_MONETARY",
        "LC_NAME",
        "LC_NUMERIC",
        "LC_PAPER",
        "LC_TELEPHONE",
        "LC_TIME",
    }
)
"""Host variables that every command sees. It sees no others, keys and tokens in particular."""


def check_env(env: PassedEnv) -> Mapping[str, str] | tuple[str, ...]:
    """Copy and check `env`.

    Raises:
        TypeError: `env` is one string, which would be read as one name per letter.
        ValueError: A name is empty or has `=` or a NUL byte, as in `NAME=value` instead of a name.
    """
    if isinstance(env, str):
        raise TypeError(f"env takes a sequence of variable names or a mapping, not one string: write [{env!r}]")
    copy = dict(cast("Mapping[str, str]", env)) if isinstance(env, Mapping) else tuple(env)
    for name in copy:
        if not name or "=" in name or "\0" in name:
            # Only up to the `=`: the rest may be a secret, and errors are logged.
            raise ValueError(
                f"env: {name.partition('=')[0]!r} is not a variable name; "
                'give names, ["NAME"], or a mapping, {"NAME": "value"}'
            )
    return copy


def passed_environment(env: Mapping[str, str] | tuple[str, ...]) -> dict[str, str]:
    """Return the variables that `env` adds now, without named variables that the host lacks."""
    if isinstance(env, Mapping):
        return dict(env)
    return {name: os.environ[name] for name in env if name in os.environ}


def command_environment(env: Mapping[str, str] | tuple[str, ...]) -> dict[str, str]:
    """Build the environment of a command of the local backend, before the call's own variables."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if "PATH" in inherited:
        # Commands start in the workspace: a relative entry would run its programs for `ls`.
        inherited["PATH"] = absolute_path(inherited["PATH"])
    return inherited | passed_environment(env)
