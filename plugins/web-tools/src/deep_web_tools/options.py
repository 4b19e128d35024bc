"""The options of the web tools."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import Literal

from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["WebToolsOptions"]

# A project's file, which the model may have written, cannot raise the user's limits.
_LOWER: dict[str, JsonValue] = {"project": "lower"}


class WebToolsOptions(PluginOptions):
    """Options of the plugin `web_tools`."""

    require_fetch_approval: bool = Field(default=True, json_schema_extra={"project": "on"})
    """`fetch` needs approval, and does not follow a redirect to another site."""
    hosts: list[str] = Field(default=["*"], json_schema_extra={"project": "subset"})
    """Hosts that `fetch` may read: `docs.python.org`, `*.python.org` (any host below it), `*` (all)."""
    allow_private: bool = Field(default=False, json_schema_extra={"project": "off"})
    """`fetch` may read private, loopback, link-local and reserved addresses."""
    max_bytes: int = Field(default=2_000_000, ge=1, json_schema_extra=_LOWER)
    """Maximum bytes of a page, sent and decompressed; `fetch` does not read the rest."""
    fetch_seconds: float = Field(default=20, gt=0, json_schema_extra=_LOWER)
    """Time limit of one `fetch` or `search`, in seconds."""
    max_redirects: int = Field(default=5, ge=0, le=20, json_schema_extra=_LOWER)
    """Maximum redirects of one `fetch`, 0 to 20."""
    page_chars: int = Field(default=20_000, ge=100, le=1_000_000, json_schema_extra=_LOWER)
    """Maximum characters of one result; `offset` reads on."""
    search: Literal["duckduckgo", "exa", "searxng", "tavily"] | None = None
    """The provider of `search`; without one, the model has no such tool."""
    searxng_url: str | None = None
    """The address of your SearXNG, for `search = "searxng"`."""
    api_key_env: str | None = None
    """The environment variable with the provider's key; by default `TAVILY_API_KEY` or `EXA_API_KEY`."""
    search_results: int = Field(default=8, ge=1, le=50, json_schema_extra=_LOWER)
    """Maximum results of one `search`, 1 to 50."""
