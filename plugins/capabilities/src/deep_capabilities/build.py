"""Make a capability of an entry: find its class, turn JSON into arguments, call it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, cast, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_ai.agent.spec import CapabilitySpec
from pydantic_ai.capabilities import AbstractCapability

from deep_core.plugin_api import suggest

from .distributions import find_owner, shadowing_file
from .hosts import LLM, langchain_capability, langchain_class, llm_plugin, llm_target, toolbox_capability
from .problems import EntryError, explain_import_error

__all__ = ["HOMES", "build_capability", "find_object"]

HOMES = ("pydantic_ai.capabilities", "pydantic_ai_harness")
"""Modules whose classes an entry may name without the module, first one first."""
ONE_OBJECT = {"use", "options"}
"""A table in `options` with `use`, and at most these keys, is an object to make."""


def build_capability(use: str | Mapping[str, Any], options: Mapping[str, Any]) -> AbstractCapability[Any]:
    """Make the capability of an entry.

    Args:
        use: a class, an entry of an agent spec: `{"Name": argument}`, `{"Name": {…}}`, tools of LangChain, or `llm:…`.
        options: keyword arguments.

    Raises:
        EntryError: the class cannot be imported, or is no capability, or does not accept the arguments.
    """
    name, args, kwargs = _call(use, options)
    if name.startswith(LLM):
        return _of_llm(name, args, kwargs)
    found: Any = find_object(name)
    if not (isinstance(found, type) and issubclass(found, AbstractCapability)):
        return _of_langchain(name, found, args, kwargs)
    cls = cast("type[AbstractCapability[Any]]", found)
    made = _made(name, cls, cls.from_spec, args, kwargs)
    if not isinstance(made, AbstractCapability):
        raise EntryError("failed", f"{name} made {_kind(made)} instead of a capability")
    return cast("AbstractCapability[Any]", made)


def _of_langchain(name: str, found: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> AbstractCapability[Any]:
    tools = _made(name, found, found, args, kwargs) if langchain_class(found) else found
    try:
        capability = langchain_capability(tools)
    except EntryError:
        raise
    except Exception as error:
        raise EntryError("failed", f"{name} raised {_describe(error)}") from error
    if capability is None:
        raise EntryError("invalid", f"{name} is not a capability, but {_kind(cast('object', found))}")
    if tools is found and (args or kwargs):
        raise EntryError("invalid", f"{name} takes no options: it is no class")
    return capability


def _of_llm(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> AbstractCapability[Any]:
    point, tool = llm_plugin(name)
    plugin = _imported(point.module, name)
    for part in point.attr.split(".") if point.attr else ():
        plugin = _attribute(plugin, part, name)
    toolbox, tools = llm_target(plugin, name, tool)
    if toolbox is None:
        if args or kwargs:
            raise EntryError("invalid", f"{name} takes no options: only a toolbox does")
        return toolbox_capability(tools, list)
    make = partial(_made, name, toolbox, toolbox, args, kwargs)
    return toolbox_capability(make(), make)


def find_object(name: str) -> Any:
    """Import what a name says: `module:attribute`, or a class of `HOMES`.

    Raises:
        EntryError: it does not exist, or something that it needs is not installed, or pins another Pydantic AI.
    """
    module, colon, path = name.partition(":")
    if colon:
        found = _imported(module, name)
        for part in path.split("."):
            found = _attribute(found, part, name)
        return found
    core = _imported(HOMES[0], name)
    if name in core.__all__:
        return getattr(core, name)
    try:
        harness = _imported(HOMES[1], name)
    except EntryError as error:
        if error.status != "needs-package":
            raise
        if hint := suggest(name, core.__all__):
            raise EntryError("invalid", f"Pydantic AI has no capability {name!r}.{hint}") from error
        raise EntryError(
            "needs-package", f"if {name} is one of the harness: {error}; else write module:Class"
        ) from error
    if name not in harness.__all__:
        hint = suggest(name, {*core.__all__, *harness.__all__})
        raise EntryError("invalid", f"neither Pydantic AI nor its harness has {name!r}.{hint} Or write module:Class")
    return _attribute(harness, name, name)


def _imported(module: str, name: str) -> Any:
    top = module.partition(".")[0]
    if (file := shadowing_file(top)) is not None:
        why = f"{name}: {file} is in the current directory, where the model may write; install it: pip install -e ."
        raise EntryError("refused", why)
    if (owner := find_owner(top)) is not None and (problem := owner.pin_problem()):
        raise EntryError("incompatible", f"{name}: {problem}; install versions that fit each other")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise explain_import_error(error, name, module) from error
    except (Exception, SystemExit) as error:
        raise EntryError("failed", f"{name}: its import raised {_describe(error)}") from error


def _attribute(owner: Any, part: str, name: str) -> Any:
    try:
        return getattr(owner, part)  # a lazy module imports here
    except AttributeError:
        hint = suggest(part, [each for each in dir(owner) if not each.startswith("_")])
        raise EntryError("invalid", f"{name}: there is no {part!r}.{hint}") from None
    except ImportError as error:
        raise explain_import_error(error, name, f"{getattr(owner, '__name__', '')}.{part}") from error
    except (Exception, SystemExit) as error:
        raise EntryError("failed", f"{name}: its import raised {_describe(error)}") from error


def _call(use: str | Mapping[str, Any], options: Mapping[str, Any]) -> tuple[str, tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(use, str):
        return use, (), options
    try:
        spec = CapabilitySpec.model_validate(use)
    except ValidationError as error:
        raise EntryError("invalid", f"use: {error.errors(include_input=False)[0]['msg']}") from None
    if options:
        raise EntryError("invalid", "options stand beside a class; in the form of an agent spec they are part of `use`")
    return spec.name, spec.args, spec.kwargs


def _made(name: str, target: Any, call: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a class or function with JSON arguments."""
    # `from_spec` of most classes passes everything on, so the class itself says what it takes.
    passes_on = getattr(call, "__func__", None) is AbstractCapability.from_spec.__func__  # type: ignore[attr-defined]
    signature = _signature(target if passes_on else call)
    hints = _hints(target.__init__ if passes_on and isinstance(target, type) else call)
    if signature is not None:
        _check_names(name, signature, args, kwargs)
    converted = {key: _argument(name, key, value, hints.get(key)) for key, value in kwargs.items()}
    positional = [_argument(name, "its argument", value, None) for value in args]
    try:
        return call(*positional, **converted)
    except ImportError as error:
        raise explain_import_error(error, name, getattr(target, "__module__", "")) from error
    except (Exception, SystemExit) as error:
        raise EntryError("failed", f"{name}(…) raised {_describe(error)}") from error


def _signature(target: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(target)
    except (ValueError, TypeError):
        return None


def _hints(target: Any) -> dict[str, Any]:
    try:
        return get_type_hints(target, include_extras=True)
    except Exception:  # noqa: BLE001 - names under TYPE_CHECKING; the arguments go in as they are
        return {}


def _check_names(name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    parameters = list(signature.parameters.values())
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if not anything and (unknown := kwargs.keys() - known):
        first = min(unknown)
        takes = f" It takes {', '.join(sorted(known))}." if known else " It takes none."
        raise EntryError("invalid", f"{name} has no option {first!r}.{suggest(first, known) or takes}")
    required = [p.name for p in parameters if p.default is p.empty and p.name in known]
    missing = [each for each in required[len(args) :] if each not in kwargs]
    if missing:
        raise EntryError("invalid", f"{name} needs options: {', '.join(missing)}", needs_options=True)


def _argument(name: str, key: str, value: Any, hint: Any) -> Any:
    made = _with_objects(value)
    if hint is None or made is not value:
        return made
    adapter = _adapter(hint)
    if adapter is None:
        return made
    try:
        return adapter.validate_python(made)
    except ValidationError as error:
        # One for each type of a union.
        said = dict.fromkeys(each["msg"] for each in error.errors(include_input=False, include_url=False))
        raise EntryError("invalid", f"{name}: options.{key}: {'; or: '.join([*said][:3])}") from None


def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    """Return what converts JSON to a type; None for types that pydantic cannot read."""
    for config in (ConfigDict(arbitrary_types_allowed=True), None):
        try:
            return TypeAdapter(hint, config=config)
        except (PydanticUserError, TypeError, NameError):
            continue
    return None


def _with_objects(value: Any) -> Any:
    """Replace tables with `use` by the objects that they name; the same value if there are none."""
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        if "use" in table and table.keys() <= ONE_OBJECT:
            return _object(table["use"], table.get("options"))
        made = {key: _with_objects(item) for key, item in table.items()}
        return table if all(made[key] is table[key] for key in table) else made
    if isinstance(value, list):
        items = cast("list[Any]", value)
        found = [_with_objects(item) for item in items]
        return items if all(new is old for new, old in zip(found, items, strict=True)) else found
    return value


def _object(use: Any, options: Any) -> Any:
    if not isinstance(use, str) or not isinstance(options, Mapping | None):
        raise EntryError("invalid", "an object in options is { use = 'module:name', options = {…} }")
    found = find_object(use)
    if isinstance(found, type):
        call: Any = cast("Any", found)
        call = call.from_spec if issubclass(found, AbstractCapability) else call
        return _made(use, cast("Any", found), call, (), cast("Mapping[str, Any]", options or {}))
    return found if options is None else _made(use, found, found, (), cast("Mapping[str, Any]", options))


def _kind(found: object) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"of the type {type(found).__name__}"


def _describe(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400].rstrip(": ")
