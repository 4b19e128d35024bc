"""The options of the plugin."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from deep_core import PluginOptions

__all__ = ["McpOptions"]


class McpOptions(PluginOptions):
    """Options of the plugin `mcp`."""

    # Values are checked server by server, so that one wrong server does not cost the others: see `servers.py`.
    servers: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """Servers by name: `command`, `args`, `env`, `cwd`; or `url`, `headers`; `type`, `disabled`, `prefix`,
    `trust_annotations`."""
    files: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Read `.mcp.json` of the project and `mcp.json` of the user's configuration folder."""
    prefix: bool = True
    """Name tools `<server>_<tool>`. False: as the server names them. A server may say otherwise."""
    trust_annotations: bool = Field(default=False, json_schema_extra={"project": "off"})
    """Believe what servers say about their tools. False: every tool of a server asks."""
    defer_above: int = Field(default=20, ge=0, le=1_000, json_schema_extra={"project": "lower"})
    """The model finds the tools of a server with more than this number by tool search."""
    tool_tokens: int = Field(default=3_000, ge=0, le=1_000_000, json_schema_extra={"project": "lower"})
    """Estimated tokens of all servers' tools in each request. The model finds the others by tool search; those that a
    conversation has used stay."""
    wait: float = Field(default=5.0, ge=0, le=600, json_schema_extra={"project": "lower"})
    """Seconds that a request waits for servers whose tools are not known yet. Later ones come with a later request."""
    start_timeout: float = Field(default=30.0, gt=0, le=600, json_schema_extra={"project": "lower"})
    """Seconds that a server may take to start, and again to list its tools."""
    call_timeout: float = Field(default=300.0, gt=0, le=86_400, json_schema_extra={"project": "lower"})
    """Seconds that a call may take."""
    result_chars: int = Field(default=50_000, ge=1_000, le=1_000_000, json_schema_extra={"project": "lower"})
    """Maximum characters of a result."""
