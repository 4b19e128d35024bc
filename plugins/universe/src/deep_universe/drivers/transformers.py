"""Transformers of schemas beside those of Pydantic AI."""

from __future__ import annotations

from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.profiles import JsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

__all__ = ["OpenAITransformer", "UntitledTransformer"]


class UntitledTransformer(JsonSchemaTransformer):
    """Drop the titles that pydantic makes of names: they cost tokens and say nothing."""

    def transform(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Drop `title` and `$schema` of one schema; a property of that name is none."""
        schema.pop("title", None)
        schema.pop("$schema", None)
        return schema


class OpenAITransformer(OpenAIJsonSchemaTransformer):
    """Give every array `items`, without which OpenAI refuses the request: a tuple's schema has only `prefixItems`."""

    def transform(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Add `items` to tuples: what an element may be where its position is not looked at.

        Raises:
            UserError: a strict tool has a tuple; strict mode has no positions.
        """
        schema = super().transform(schema)
        positions: list[Any] = schema.get("prefixItems") or []
        if positions and self.strict:
            raise UserError("OpenAI's strict mode has no tuples: use a list or a model, or do not set `strict`.")
        if schema.get("type") == "array" and "items" not in schema:
            kinds = [kind for index, kind in enumerate(positions) if kind not in positions[:index]]
            schema["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
        return schema
