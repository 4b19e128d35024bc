"""Any Pydantic AI capability in a deep agent, by name in the configuration, under the agent's policy.

The plugin is `named_capabilities`: no plugin can have the name of a parameter of `create_deep_agent`. Importing this
package loads neither pydantic nor Pydantic AI, and a capability's module is imported only if an entry names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import lazy_exports

if TYPE_CHECKING:
    from .options import CapabilitiesOptions

__all__ = ["CapabilitiesOptions"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["CapabilitiesOptions"]})
