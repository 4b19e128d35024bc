"""The base of drivers for APIs that have tool calls: how replies reach them, and no format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from ..calls import InvalidCall, ToolCall
from ..driver import FALLBACK, GOOD, NATIVE, NONE, ToolDriver, WireTarget
from .reading import read_parts
from .responses import Fields, ResponseData, as_data, as_items, is_model_response

__all__ = ["WireDriver"]


class WireDriver(ToolDriver):
    """A driver of a provider's API: fits the models of its protocol, and replies with its fingerprint.

    A Pydantic AI `ModelResponse` is in no wire format any more: every wire driver reads its calls.

    Attributes:
        protocol: the `protocol_hint` of the models that speak it.
        list_field: the field of a reply that a list without a reply around it is read as.
    """

    protocol: ClassVar[str]
    list_field: ClassVar[str]

    def can_handle(self, target: WireTarget) -> int:
        """Return 100 for models of the protocol that have tool calls, else 0."""
        return NATIVE if target.protocol_hint == self.protocol and "tools" in target.capabilities else NONE

    def can_handle_response(self, response: object) -> int:
        """Return how surely a response is in this format; 0 for an object of any other kind. Never raises."""
        try:
            data = as_data(response)
            if is_model_response(data):
                return GOOD if read_parts(data) else FALLBACK
            fields = self._fields(data)
            return NONE if fields is None else self.score(fields)
        except Exception:  # noqa: BLE001 - a mapping whose methods raise is no response
            return NONE

    def parse(self, response: object) -> list[ToolCall | InvalidCall]:
        """Return the calls in a response, in order.

        Raises:
            ValueError: the response is not in this format.
        """
        data = as_data(response)
        if is_model_response(data):
            return read_parts(data)
        fields = self._fields(data)
        if fields is None or self.can_handle_response(fields) == NONE:
            raise ValueError(f"driver {self.name!r} does not know this response: {type(response).__name__}")
        return self.read(fields)

    @abstractmethod
    def score(self, fields: Fields) -> int:
        """Return how surely a reply is in this format."""

    @abstractmethod
    def read(self, fields: Fields) -> list[ToolCall | InvalidCall]:
        """Return the calls of a reply whose score is not 0."""

    def _fields(self, data: ResponseData) -> Fields | None:
        if (items := as_items(data)) is not None:
            return {self.list_field: items} if items else None
        return data if isinstance(data, Mapping) else None
