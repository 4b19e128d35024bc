"""The environment of commands: a short list of harmless variables, and what the configuration names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import cast

__all__ = ["INHERITED", "PassedEnv", "check_env", "command_environment", "passed_environment"]

PassedEnv = Mapping[str, str] | Iterable[str]
"""Names of host variables to pass on, or a mapping of names to values to set."""

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
        # The categories by name, not by prefix: hosts smuggle arbitrary values through ssh as LC_*.
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
"""Host variables that every command sees. Everything else of the host, keys and tokens first, it does not."""


def check_env(env: PassedEnv) -> Mapping[str, str] | tuple[str, ...]:
    """Return `env` as an own copy.

    Raises:
        TypeError: `env` is one string, which would be read as one name a letter.
        ValueError: A name is empty or holds `=` or a NUL byte, as `NAME=value` given for a name does.
    """
    if isinstance(env, str):
        raise TypeError(f"env takes a sequence of variable names or a mapping, not one string: write [{env!r}]")
    copy = dict(cast("Mapping[str, str]", env)) if isinstance(env, Mapping) else tuple(env)
    for name in copy:
        if not name or "=" in name or "\0" in name:
            # Only up to the sign: what follows it may be a secret, and errors are logged.
            raise ValueError(
                f"env: {name.partition('=')[0]!r} is not a variable's name; "
                'give names, ["NAME"], or a mapping, {"NAME": "value"}'
            )
    return copy


def passed_environment(env: Mapping[str, str] | tuple[str, ...]) -> dict[str, str]:
    """What `env` adds now; a named variable that the host does not have is left out."""
    if isinstance(env, Mapping):
        return dict(env)
    return {name: os.environ[name] for name in env if name in os.environ}


def command_environment(env: Mapping[str, str] | tuple[str, ...]) -> dict[str, str]:
    """The whole environment of a command of the local backend, before what one call adds."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | passed_environment(env)
