"""The base of every plugin's options model."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

__all__ = ["Documented", "PluginOptions", "field_docs"]


class Documented(BaseModel):
    """A model whose fields are described by the text below each, in its JSON schema.

    Pydantic's own `use_attribute_docstrings` reads the source of every model while it is made: a quarter of the time
    from start to first request, for texts that only a schema shows. Here they are read when a schema is made.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most are never given any value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        made = handler(core_schema)
        properties: dict[str, Any] = handler.resolve_ref_schema(made).get("properties", {})
        for name, text in field_docs(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return made


class PluginOptions(Documented):
    """Subclass it, give every field a default and a description, and return the class from `deep_options`.

    Models that stand in its fields may subclass it too. Unknown keys are errors. A field whose `json_schema_extra` has
    `{"trusted": True}` is not taken from a project's configuration file, which the model may have written.
    """


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Field -> the text that stands below it in the source, of the model and its bases; none without a source."""
    docs: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if kind is BaseModel or not issubclass(kind, BaseModel):
            continue
        try:
            made: Any = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue  # made at run time, or shipped without its source
        body: list[ast.stmt] = made.body
        for field, text in pairwise(body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(text, ast.Expr):
                continue
            if isinstance(field.target, ast.Name) and isinstance(text.value, ast.Constant):
                docs[field.target.id] = inspect.cleandoc(str(text.value.value))
    return docs
