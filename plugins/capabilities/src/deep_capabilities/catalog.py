"""What an entry can name here: the capabilities of Pydantic AI and of its harness, with a line and a cost each."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from deep_core.plugin_api import approves

from .build import HOMES, build_capability, find_object
from .problems import EntryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.tools import ToolDefinition

__all__ = ["Importable", "find_importable"]

CHARS_PER_TOKEN = 4
"""The estimate of `deep explain`."""
BUILDING_BLOCKS = (
    "AbstractCapability", "Capability", "CombinedCapability", "DynamicCapability", "HandleDeferredToolCalls", "Hooks",
    "NativeOrLocalTool", "Toolset", "WrapperCapability",
)  # fmt: skip
"""Classes of Pydantic AI that take Python objects."""
SKIPPED = ("experimental", "cache_stability", "context", "docs", "overflowing_tool_output", "runtime_authoring")
"""Modules of the harness that are unstable, or old names of others."""
NO_CAPABILITY = ("Backend", "Error", "Session", "Toolset", "Warning")
"""Endings of classes that are none; what cannot be imported cannot be asked."""


_KEY = re.compile(r"\b[A-Z0-9]+(_[A-Z0-9]+)*_(KEY|TOKEN)\b")


@dataclass(frozen=True)
class Importable:
    """A capability that an entry can name.

    Attributes:
        name: of the class.
        use: what an entry says.
        home: `core` or `harness`.
        summary: the first line of its documentation; "" if it cannot be imported.
        status: `ready`, `needs-options`, `needs-key`, `needs-approvers`, or why it cannot be used.
        detail: which options, or what to type.
        tools: the names of its tools, as far as they are known without a run.
        tokens: of its tools and fixed instructions in a request; None if they are known only in a run.
    """

    name: str
    use: str
    home: str
    summary: str
    status: str
    detail: str = ""
    tools: tuple[str, ...] = ()
    tokens: int | None = None


def find_importable() -> Iterator[Importable]:
    """Yield every capability of Pydantic AI and its harness, in alphabetical order. Imports them, and runs none."""
    core = importlib.import_module(HOMES[0])
    for name in sorted(core.__all__):
        found = getattr(core, name)
        if isinstance(found, type) and issubclass(found, AbstractCapability) and name not in BUILDING_BLOCKS:
            yield _described(name, name, "core", cast("type[AbstractCapability[Any]]", found))
    if importlib.util.find_spec(HOMES[1]) is not None:
        for name, use in sorted(_harness_names().items()):
            try:
                found = find_object(use)
            except EntryError as error:
                yield Importable(name, use, "harness", "", error.status, str(error))
                continue
            if isinstance(found, type) and issubclass(found, AbstractCapability):
                yield _described(name, use, "harness", cast("type[AbstractCapability[Any]]", found))


def _harness_names() -> dict[str, str]:
    """Return class -> what an entry says: the package's own names, and those of modules that it leaves out."""
    harness = importlib.import_module(HOMES[1])
    names = {name: name for name in harness.__all__}
    for module in pkgutil.iter_modules(harness.__path__):
        path = f"{HOMES[1]}.{module.name}"
        exported = [] if module.name.startswith("_") or module.name in SKIPPED else _exported(path)
        if names.keys().isdisjoint(exported):
            stem = module.name.replace("_", "")
            names |= {name: f"{path}:{name}" for name in exported if name.lower().startswith(stem)}
    return {name: use for name, use in names.items() if not (name.isupper() or name.endswith(NO_CAPABILITY))}


def _exported(path: str) -> list[str]:
    """Return `__all__` of a module, read from its text: the import may need what is not installed."""
    spec = importlib.util.find_spec(path)
    if spec is None or spec.origin is None:
        return []
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value)) if isinstance(node.value, ast.List | ast.Tuple) else []
    return []


def _described(name: str, use: str, home: str, cls: type[AbstractCapability[Any]]) -> Importable:
    summary = (inspect.getdoc(cls) or "").partition("\n")[0].strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = build_capability(use, {})
    except EntryError as error:
        # Many check in their constructor that one of several options is set.
        status = "needs-options" if error.needs_options or error.status == "failed" else error.status
        return Importable(name, use, home, summary, status, str(error))
    status = "needs-approvers" if _approves(made) else "ready"
    try:
        definitions, texts = _static_parts(made)
    except Exception as error:  # noqa: BLE001 - a capability's own code, which may need a key
        detail = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Importable(name, use, home, summary, "needs-key" if _KEY.search(detail) else "failed", detail)
    if definitions is None:
        return Importable(name, use, home, summary, status)
    chars = sum(map(_schema_chars, definitions)) + sum(map(len, texts))
    tools = tuple(definition.name for definition in definitions)
    return Importable(name, use, home, summary, status, "", tools, -(-chars // CHARS_PER_TOKEN))


def _approves(capability: AbstractCapability[Any]) -> bool:
    leaves: list[AbstractCapability[Any]] = []
    capability.apply(leaves.append)
    return any(approves(leaf) for leaf in (capability, *leaves))


def _static_parts(capability: AbstractCapability[Any]) -> tuple[list[ToolDefinition] | None, list[str]]:
    """Return the tools (None: known only in a run) and the fixed instructions."""
    definitions: list[ToolDefinition] = []
    known = True

    def visit(toolset: AbstractToolset[Any]) -> None:
        nonlocal known
        if isinstance(toolset, FunctionToolset):
            definitions.extend(tool.tool_def for tool in toolset.tools.values())
        else:
            known = False

    toolset: Any = capability.get_toolset()
    if isinstance(toolset, AbstractToolset):
        cast("Callable[[Any], None]", cast("Any", toolset).apply)(visit)
    elif toolset is not None:
        known = False
    given: Any = capability.get_instructions()
    parts = list(cast("Sequence[Any]", given)) if isinstance(given, list | tuple) else [given]
    texts = [part if isinstance(part, str) else getattr(part, "content", "") for part in parts if part is not None]
    return (definitions if known else None), [text for text in texts if isinstance(text, str)]


def _schema_chars(definition: ToolDefinition) -> int:
    shown = {"name": definition.name, "description": definition.description or ""}
    return len(json.dumps({**shown, "parameters": definition.parameters_json_schema}, separators=(",", ":")))
