"""The base of every plugin's options model."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast, get_args

from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from ..errors import ConfigError, suggest, warn
from .config import ignored_message

if TYPE_CHECKING:
    from .settings import PluginSettings


class Documented(BaseModel):
    """A model whose JSON schema takes each field's description from the docstring below the field.

    Pydantic's `use_attribute_docstrings` reads the source of every model when it creates the class: a quarter of the
    time from start to first request, for texts that only a schema shows. Here, creating a schema reads them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most models never validate a value

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

    Models inside its fields may subclass it too. Unknown keys are errors. An untrusted project's file cannot set a
    field whose `json_schema_extra` has `{"trusted": True}`, nor an option whose value holds such a field.
    """


def validate_options(
    plugin: str,
    model: type[PluginOptions],
    settings: PluginSettings,
    given: PluginOptions | Mapping[str, Any] | None = None,
) -> PluginOptions:
    """Validate one plugin's options. Options from code override the configuration's.

    Args:
        plugin: its name.
        model: the class that its `deep_options` returned.
        settings: `[plugins.<plugin>]`, merged.
        given: the options in the call of `create_deep_agent`.

    Raises:
        ConfigError: an option is unknown or wrong; the message names its source and suggests a fix.
    """
    for key, source in settings.untrusted_options.items():
        if is_trusted_only(model, key):
            warn(ignored_message(source, [f"plugins.{plugin}.options.{key}"]))
    settings = settings.believing(partial(is_trusted_only, model))
    data = dict(settings.options)
    if isinstance(given, PluginOptions):
        if not data:
            return given
        data.update({key: getattr(given, key) for key in given.model_fields_set})
    elif given is not None:
        data.update(given)
    if not data and not model.__pydantic_decorators__.model_validators:
        # Defaults alone: building a validator for each model would cost more than the rest of this function.
        return model.model_construct()
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        key = str(first["loc"][0]) if first["loc"] else ""
        in_code = isinstance(given, Mapping) and key in given
        where = "code" if in_code else settings.sources.get(f"options.{key}", "code")
        message = first["msg"]
        if first["type"] == "extra_forbidden":
            message = f"unknown option.{suggest(key, model.model_fields)} Known: {', '.join(model.model_fields)}"
        raise ConfigError(f"{where}: plugins.{plugin}.options.{path}: {message}", plugin=plugin) from None


def is_trusted_only(model: type[BaseModel], option: str) -> bool:
    """Whether an option, by its name or an alias, is marked as trusted or holds a model with a trusted field."""
    found = [field for name, field in model.model_fields.items() if option in _names(name, field)]
    return any(_is_marked(field, {model}) for field in found)


def _is_marked(field: FieldInfo, seen: set[type[BaseModel]]) -> bool:
    extra: Any = field.json_schema_extra
    if isinstance(extra, dict) and cast("dict[str, Any]", extra).get("trusted"):
        return True
    inner = {*_models_in(field.annotation)} - seen
    seen |= inner
    return any(_is_marked(below, seen) for model in inner for below in model.model_fields.values())


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _names(name: str, field: FieldInfo) -> set[object]:
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return {name, *(choice.path[0] if isinstance(choice, AliasPath) else choice for choice in choices)}


def field_docs(model: type) -> dict[str, str]:
    """Map each field of the class and its bases to the docstring below it; skip classes without source."""
    docs: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if kind is BaseModel:
            continue
        try:
            made: Any = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
        except (OSError, TypeError, SyntaxError):
            continue  # created at run time, or shipped without its source
        body: list[ast.stmt] = made.body
        for field, text in pairwise(body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(text, ast.Expr):
                continue
            if isinstance(field.target, ast.Name) and isinstance(text.value, ast.Constant):
                docs[field.target.id] = inspect.cleandoc(str(text.value.value))
    return docs
