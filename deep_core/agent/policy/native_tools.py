"""Native tools, which a provider runs itself: no gate sees their calls, so requests carry only those that are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic_ai.settings import ModelSettings

from ...tables import is_collection, is_table

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

RAW_SETTINGS = ("extra_body", "bedrock_additional_model_requests_fields")
"""Model settings with raw fields of the provider's request."""
RAW_FIELDS = ("tools", "mcp_servers", "plugins", "search_parameters", "web_search_options")
"""Raw fields that let a provider run tools."""


@dataclass(eq=False, repr=False)
class NativeTools:
    """The provider's native tools that a request may carry. No gate sees their calls, so the user must name them.

    Attributes:
        named: the kinds that configuration or code names.
        refused: called with each kind that was removed.
    """

    named: frozenset[str]
    refused: Callable[[str], None]

    def filter(self, request: ModelRequestContext) -> None:
        """Remove native tools that are not named. `tool_search` may stay: it finds tools whose calls are gated."""
        parameters, settings = request.model_request_parameters, request.model_settings
        if parameters.native_tools:
            kept = [tool for tool in parameters.native_tools if tool.kind == "tool_search" or self._allows(tool.kind)]
            if len(kept) < len(parameters.native_tools):
                request.model_request_parameters = replace(parameters, native_tools=kept)
        if settings and not settings.keys().isdisjoint(("openai_native_tools", *RAW_SETTINGS)):
            request.model_settings = ModelSettings(**self.kept_settings(settings))  # pyright: ignore[reportArgumentType]

    def kept_settings(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return model settings without the native tools that are not named."""
        out = {**settings}
        for key, value in settings.items():
            if key == "openai_native_tools":
                out[key] = self._named(value)
            elif key in RAW_SETTINGS and is_table(value):
                kept = {name: self._named(item) if name == "tools" else item for name, item in value.items()}
                out[key] = {name: kept[name] for name in kept if kept[name] != [] and self._keeps(name)}
        return out

    def _keeps(self, field: str) -> bool:
        return field == "tools" or field not in RAW_FIELDS or self._allows(field)

    def _named(self, tools: object) -> list[object]:
        given = tools if is_collection(tools) else ()
        return [
            tool for tool in given if not is_table(tool) or self._allows(str(tool.get("type") or next(iter(tool), "")))
        ]

    def _allows(self, kind: str) -> bool:
        if kind not in self.named:
            self.refused(kind)
        return kind in self.named


def kinds_in(settings: object) -> frozenset[str]:
    """Return the kinds of native tools in model settings; none in a function that returns settings."""
    kinds: set[str] = set()
    if is_table(settings):
        NativeTools(frozenset(), kinds.add).kept_settings(settings)
    return frozenset(kinds)
