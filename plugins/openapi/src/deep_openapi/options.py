"""The options of the plugin, and those of one service."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from collections.abc import Mapping
from typing import Any

from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["ApiSettings", "OpenapiOptions"]

_LOWER: dict[str, JsonValue] = {"project": "lower"}


class OpenapiOptions(PluginOptions):
    """Options of the plugin `openapi`."""

    # Without a `project` mark: an untrusted project's file cannot name an address that gets a credential. Checked
    # service by service, so that a wrong one costs itself.
    apis: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """Services by name: `spec`, `base_url`, `auth_env`, `auth`, `tools`, `digest`, `enabled`."""
    defer_above: int = Field(default=20, ge=0, le=10_000, json_schema_extra=_LOWER)
    """The model finds the operations of a service with more than this number by tool search."""
    tool_tokens: int = Field(default=3_000, ge=0, le=1_000_000, json_schema_extra=_LOWER)
    """Estimated tokens of all services' tools in each request; services beyond it are found by tool search."""
    pages: int = Field(default=5, ge=1, le=1_000, json_schema_extra=_LOWER)
    """Maximum pages that one call reads of a list."""
    call_timeout: float = Field(default=60.0, gt=0, le=3_600, json_schema_extra=_LOWER)
    """Seconds that a call may take, with all its pages."""
    max_bytes: int = Field(default=5_000_000, ge=1_000, le=100_000_000, json_schema_extra=_LOWER)
    """Maximum bytes of one answer; a call does not read the rest."""
    result_chars: int = Field(default=50_000, ge=1_000, le=1_000_000, json_schema_extra=_LOWER)
    """Maximum characters of a result."""


class ApiSettings(PluginOptions):
    """One service."""

    spec: str
    """The OpenAPI document: a file, or an address with `https` (at loopback also `http`)."""
    base_url: str
    """The address below which all calls go."""
    auth_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The environment variable with the credential."""
    auth: str | None = Field(default=None, pattern=r"^(bearer|basic|(header|query|cookie) [!-~]+)$")
    """Where the credential goes, if not where the document says: `bearer`, `basic`, `header X-Key`, `query key`."""
    tools: str | None = None
    """A tool expression: the agent has only these operations."""
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{16,64}$")
    """The beginning of the document's SHA-256: another document is refused."""
    enabled: bool = True
    """False leaves the service out."""
