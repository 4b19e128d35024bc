"""Keys of model providers that the user stored: in the system's keyring, else in a file that only the user reads."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from deep_sessions import PROVIDER_KEYS, key_variable, replace_private

from ..failure import USAGE, Failure

__all__ = ["delete_key", "load_key", "load_keys", "set_key", "stored_keys", "variable_of"]

T = TypeVar("T")
SERVICE = "deep"
LONGEST = 4_096
"""Characters of a key."""
WAIT = 3.0
"""Seconds that a keyring may take: one that is locked may ask somewhere else."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,60}")


def variable_of(name: str) -> str:
    """Return the variable of a provider or of itself.

    Raises:
        Failure: it is neither.
    """
    from deep_core.plugin_api import suggest

    if name.lower() in PROVIDER_KEYS:
        return PROVIDER_KEYS[name.lower()]
    if _VARIABLE.fullmatch(name):
        return name
    raise Failure(
        f"no provider {name!r}.{suggest(name, PROVIDER_KEYS)} Name one ({', '.join(PROVIDER_KEYS)}) or a variable",
        USAGE,
    )


def set_key(name: str, value: str) -> str:
    """Store a key; return where: `keyring`, or the path of the file.

    Raises:
        Failure: it is no key, or cannot be stored.
    """
    variable = variable_of(name)
    value = value.strip()
    if not value or len(value) > LONGEST or not value.isascii() or not value.isprintable() or " " in value:
        raise Failure(f"that is no key: one word of at most {LONGEST:,} printable characters", USAGE)
    ring = _keyring()
    if ring is not None and _within(lambda: (ring.set_password(SERVICE, variable, value), True)[1], default=False):
        _write({**_read(), variable: None})
        return "keyring"
    _write({**_read(), variable: value})
    return str(_file())


def stored_keys() -> dict[str, str]:
    """Return the variables that are stored, each with where; never a key."""
    return {name: "keyring" if value is None else str(_file()) for name, value in _read().items()}


def delete_key(name: str) -> None:
    """Delete a key.

    Raises:
        Failure: it is not stored.
    """
    variable, keys = variable_of(name), _read()
    if variable not in keys:
        raise Failure(f"{variable} is not stored: deep keys list")
    ring = _keyring() if keys.pop(variable) is None else None
    if ring is not None:
        _within(lambda: ring.delete_password(SERVICE, variable), default=None)
    _write(keys)


def load_key(model: str) -> None:
    """Put the stored key of a model's provider into the environment, if its variable is not set.

    Args:
        model: the model's id, before the model is made. One whose provider has no known key changes nothing.

    Raises:
        Failure: the file of the keys cannot be read.
    """
    variable = key_variable(model)
    if variable is not None and not os.environ.get(variable) and _file().exists():
        _load(variable, _read())


def load_keys() -> None:
    """Put all stored keys into the environment: an agent of another program may ask for its own when it is imported.

    Raises:
        Failure: the file of the keys cannot be read.
    """
    keys = _read()
    for variable in keys:
        if not os.environ.get(variable):
            _load(variable, keys)


def _load(variable: str, keys: Mapping[str, str | None]) -> None:
    if variable not in keys:
        return
    value = keys[variable]
    ring = _keyring() if value is None else None
    if ring is not None:
        value = _within(lambda: cast("str | None", ring.get_password(SERVICE, variable)), default=None)
    if value:
        os.environ[variable] = value


def _file() -> Path:
    from platformdirs import user_data_path

    return user_data_path("deep") / "keys.json"


def _read() -> dict[str, str | None]:
    """Return variable -> key; None if the keyring has it."""
    try:
        data: Any = json.loads(_file().read_text(encoding="utf-8"))
        return {str(name): None if value is None else str(value) for name, value in data["keys"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(f"{_file()} cannot be read ({type(error).__name__}): fix it or remove it") from error


def _write(keys: dict[str, str | None]) -> None:
    file = _file()
    try:
        replace_private(file, json.dumps({"schema": 1, "keys": keys}))
    except OSError as error:
        raise Failure(f"{file} is not writable ({error.strerror})") from error


def _keyring() -> Any:
    """Return the module `keyring` if it is installed and this system has one; else None."""
    try:
        import keyring  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    module: Any = keyring
    priority = _within(lambda: float(module.get_keyring().priority), default=0.0)
    return module if priority >= 1 else None


def _within(work: Callable[[], T], *, default: T) -> T:
    """Do something in at most `WAIT` seconds; return the default if it fails or takes longer."""
    found: list[T] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception:  # noqa: BLE001 - any error of a keyring's backend means that there is none
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT)
    return found[0] if found else default
