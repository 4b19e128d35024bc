"""Files that remember listings and what each server said about its tools when it was last seen."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from .listing import Listing
from .servers import ServerConfig

__all__ = ["Store"]

DAY = 24 * 3600.0


class Store:
    """The plugin's folders. An unwritable folder costs the memory, not the run.

    Args:
        cache: returns the folder of listings, which servers can send again.
        data: returns the folder of what was seen.
    """

    def __init__(self, cache: Callable[[], Path], data: Callable[[], Path]) -> None:
        self._cache, self._data = cache, data
        self._lock = threading.Lock()

    def listing(self, config: ServerConfig) -> tuple[Listing, bool] | None:
        """Return the last listing of a server of exactly this configuration, and whether it is older than a day."""
        try:
            path = self._listing_path(config)
            old = time.time() - path.stat().st_mtime > DAY
            listing = Listing.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return None if listing is None else (listing, old)

    def keep(self, config: ServerConfig, listing: Listing) -> None:
        """Remember a listing."""
        try:
            _write(self._listing_path(config), listing.to_json())
        except OSError:
            return

    def is_slow(self, config: ServerConfig) -> bool:
        """Whether a request has waited for a server of exactly this configuration in vain."""
        try:
            return self._slow_path(config).exists()
        except OSError:
            return False

    def keep_slow(self, config: ServerConfig) -> None:
        """Remember that a request waited in vain, so that none waits again."""
        try:
            _write(self._slow_path(config), "")
        except OSError:
            return

    def forget(self, config: ServerConfig) -> None:
        """Forget a listing, and what was seen."""
        try:
            self._listing_path(config).unlink(missing_ok=True)
            self._slow_path(config).unlink(missing_ok=True)
            with self._lock:
                seen = self._seen()
                if seen.pop(_key(config), None) is not None:
                    _write(self._seen_path(), json.dumps(seen, indent=1, sort_keys=True))
        except OSError:
            return

    def changed(self, config: ServerConfig, listing: Listing) -> tuple[str, ...]:
        """Return the tools that are not those that were seen first, or last accepted.

        Tools that are new, or all of a server that is new, count as seen from now on. A server of another configuration
        is another server: two projects may have one of a name, and whoever may configure it is asked for that.
        """
        with self._lock:
            seen = self._seen()
            known: dict[str, str] = seen.get(_key(config), {}).get("tools", {})
            changed = tuple(t.name for t in listing.tools if known.get(t.name, t.digest) != t.digest)
            now = {**{t.name: t.digest for t in listing.tools}, **known}
            if now != known:
                self._keep_seen({**seen, _key(config): {"tools": now}})
        return changed

    def accept(self, config: ServerConfig, listing: Listing) -> None:
        """Remember that a person has seen these descriptions."""
        with self._lock:
            tools = {t.name: t.digest for t in listing.tools}
            self._keep_seen({**self._seen(), _key(config): {"tools": tools}})

    def log_path(self, name: str) -> Path:
        """Return the file of a server's stderr."""
        folder = self._cache() / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"

    @property
    def data(self) -> Path:
        """The folder of what was seen, and of logins."""
        return self._data()

    def _listing_path(self, config: ServerConfig) -> Path:
        folder = self._cache() / "listings"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{_key(config)}.json"

    def _slow_path(self, config: ServerConfig) -> Path:
        return self._listing_path(config).with_suffix(".slow")

    def _seen_path(self) -> Path:
        return self._data() / "seen.json"

    def _seen(self) -> dict[str, Any]:
        try:
            data: object = json.loads(self._seen_path().read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(data, dict):
            return {}
        table = cast("dict[str, Any]", data)
        return {name: entry for name, entry in table.items() if isinstance(entry, dict)}

    def _keep_seen(self, seen: Mapping[str, Any]) -> None:
        try:
            _write(self._seen_path(), json.dumps(seen, indent=1, sort_keys=True))
        except OSError:
            return


def _key(config: ServerConfig) -> str:
    return f"{config.name}-{config.digest}"


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
