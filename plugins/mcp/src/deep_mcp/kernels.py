"""The hub of each kernel and configuration, made once and closed with the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .hub import Hub
from .store import Store

if TYPE_CHECKING:
    from deep_core import PluginContext, PluginKernel

    from .options import McpOptions
    from .servers import FoundServer

__all__ = ["hub_of", "hubs_of"]

_HUBS: WeakKeyDictionary[PluginKernel, dict[object, Hub]] = WeakKeyDictionary()
_LOCK = Lock()


def hub_of(context: PluginContext, found: Sequence[FoundServer], options: McpOptions, *, quiet: bool = False) -> Hub:
    """Return the kernel's hub of these servers: agents, subagents and runs share one program a server.

    Logs once why servers are not used, unless `quiet`.
    """
    limits = (options.wait, options.start_timeout, options.call_timeout)
    key = (limits, tuple((s.name, s.status, s.reason, s.config and s.config.digest) for s in found))
    with _LOCK:
        hubs = _HUBS.setdefault(context.kernel, {})
        hub = hubs.get(key)
        if hub is None:
            store = Store(lambda: context.cache_dir, lambda: context.data_dir)
            hub = hubs[key] = Hub(found, options, store, context.logger)
            context.on_close(hub.close)  # plain, so that `kernel.close()` inside an event loop works, too
            for server in () if quiet else found:
                if server.status in ("blocked", "invalid"):
                    context.logger.warning("MCP server %s is %s: %s", server.name, server.status, server.reason)
    return hub


def hubs_of(kernel: PluginKernel) -> list[Hub]:
    """Return the hubs that a kernel's agents made."""
    with _LOCK:
        return list(_HUBS.get(kernel, {}).values())
