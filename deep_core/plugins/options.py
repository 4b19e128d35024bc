"""The base of every plugin's options model."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from ..errors import ConfigError, suggest, warn
from ..tables import is_table
from .config import ignored_message

if TYPE_CHECKING:
    from .settings import PluginSettings

Options = TypeVar("Options", bound="PluginOptions")


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


NARROWER: Mapping[str, Callable[[Any, Any], bool]] = {
    "free": lambda new, old: True,
    "off": lambda new, old: new is False,
    "on": lambda new, old: new is True,
    "lower": lambda new, old: new is not None and (old is None or new <= old),
    "subset": lambda new, old: set(new) <= set(old),
    "superset": lambda new, old: set(new) >= set(old),
}
"""What an author may write as an option's `project` mark -> whether a project's value may replace the one in effect."""


class PluginOptions(Documented):
    """Subclass it, give every field a default and a description, and return the class from `deep_options`.

    Models inside its fields may subclass it too. Unknown keys are errors.

    The kernel ignores an option in an untrusted project's file, unless its field has a mark:
    `Field(default=20, json_schema_extra={"project": "lower"})`. The marks are `free` (any value), `off` and `on` (only
    false, only true), `lower` (a number at most the one in effect; None is no limit), `subset` and `superset` (a list).

    `from_list: ClassVar[str]` names the option that a list in code sets: with `"directories"`,
    `skills=["./skills"]` is `skills={"directories": ["./skills"]}`.
    """

    from_list: ClassVar[str] = "a list"  # no such option: a list is an error that names the options

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        for name, field in cls.model_fields.items():
            if (mark := project_mark(field)) not in (None, *NARROWER):
                known = ", ".join(NARROWER)
                raise TypeError(f"{cls.__name__}.{name}: project is one of {known}; not {mark!r}")


def project_mark(field: FieldInfo) -> str | None:
    """Return what an untrusted project's file may do to an option: a key of `NARROWER`; None for nothing."""
    extra: object = field.json_schema_extra
    mark = extra.get("project") if is_table(extra) else None
    return None if mark is None else str(mark)


def validate_options(
    plugin: str,
    model: type[Options],
    settings: PluginSettings,
    given: PluginOptions | Mapping[str, Any] | list[Any] | None = None,
) -> tuple[Options, Mapping[str, str]]:
    """Validate one plugin's options. Options from code override the configuration's.

    An untrusted project's options apply as far as their authors' marks allow it; a warning lists the others.

    Args:
        plugin: its name.
        model: the class that its `deep_options` returned.
        settings: `[plugins.<plugin>]`, merged.
        given: the options in the call of `create_deep_agent`.

    Returns:
        The options, and the source of each that is not a default.

    Raises:
        ConfigError: an option is unknown or wrong; the message names its source and suggests a fix.
    """
    sources = {option: settings.sources[f"options.{option}"] for option in settings.options}
    data, code = dict(settings.options), _in_code(model, given)
    if isinstance(given, model) and not data and not settings.project_options:
        return given, {}
    data |= code
    sources |= dict.fromkeys(code, "code")
    options = _validated(plugin, model, data, sources)
    ignored: dict[str, list[str]] = {}
    for option, (value, source) in settings.project_options.items():
        name, field = _field(model, option)
        names = set[object]() if field is None else _names(name, field)
        if not code.keys().isdisjoint(names):
            continue
        mark = "free" if field is None else project_mark(field)  # an unknown option is an error
        if mark is not None:
            others = {key: item for key, item in data.items() if key not in names}
            new = {key: sources[key] for key in others} | {option: source, name: source}
            narrowed = _validated(plugin, model, {**others, option: value}, new)
            if NARROWER[mark](getattr(narrowed, name), getattr(options, name)):
                options, data, sources = narrowed, {**others, option: value}, new
                continue
        ignored.setdefault(source, []).append(f"plugins.{plugin}.options.{option}")
    for source, keys in ignored.items():
        warn(ignored_message(source, keys))
    return options, sources


def _in_code(model: type[PluginOptions], given: PluginOptions | Mapping[str, Any] | list[Any] | None) -> dict[str, Any]:
    if isinstance(given, PluginOptions):
        return {key: getattr(given, key) for key in given.model_fields_set}
    return {model.from_list: given} if isinstance(given, list) else dict(given or {})


def _field(model: type[PluginOptions], option: str) -> tuple[str, FieldInfo | None]:
    """Return the field of an option, by its name or an alias."""
    found = (pair for pair in model.model_fields.items() if option in _names(*pair))
    return next(found, (option, None))


def check_narrower(plugin: str, new: PluginOptions, old: PluginOptions) -> None:
    """Check that a subagent's options give it no more than its parent's. Raises TypeError."""
    for name, field in type(new).model_fields.items():
        value, limit, mark = getattr(new, name), getattr(old, name), project_mark(field)
        if value != limit and (mark is None or not NARROWER[mark](value, limit)):
            may = "cannot change" if mark is None else f"can only narrow ({mark})"
            raise TypeError(f"context.create_agent({plugin}={{{name!r}: {value!r}}}): a subagent {may} {limit!r}")


def _validated(plugin: str, model: type[Options], data: Mapping[str, Any], sources: Mapping[str, str]) -> Options:
    if not data and not model.__pydantic_decorators__.model_validators:
        # Defaults alone: building a validator for each model would cost more than the rest of this function.
        return model.model_construct()
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        key = str(first["loc"][0]) if first["loc"] else ""
        message = first["msg"]
        if first["type"] == "extra_forbidden":
            message = f"unknown option.{suggest(key, model.model_fields)} Known: {', '.join(model.model_fields)}"
        where = sources.get(key, "code")
        raise ConfigError(f"{where}: plugins.{plugin}.options.{path}: {message}", plugin=plugin) from None


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
            # Python keeps no docstring of a field, so only the source has it. It is not read at build time, because
            # most options are classes of other authors' plugins. No agent is made with it: only schemas and pages ask.
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
