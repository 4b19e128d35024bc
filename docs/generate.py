"""Writes the pages that follow from the code: one a hook, the index of hooks, the schema of `[agent]`, the decisions.

    python docs/generate.py            write them
    python docs/generate.py --check    exit 1, with a diff, where what is committed differs

Standard library and deep_core only; the output depends on nothing but the sources.
"""

from __future__ import annotations

import argparse
import difflib
import html
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import deep_core
from deep_core import AgentConfig, events, hookspecs
from deep_core.agent_config import LATER
from deep_core.markers import HookPolicy

DOCS = Path(__file__).resolve().parent
SECTIONS = ("Called", "Result", "Example")
POLICIES = {
    "collect": "Every plugin's results are joined. A plugin that raises, or returns the wrong type, is left out: all "
    "of it, never half.",
    "one": "At most one result a plugin. A plugin that raises is left out.",
    "first": "Plugins are asked in order until one returns something else than `None`. One that raises is passed over.",
    "deny": "Every plugin is asked; the strictest answer wins: `Deny` over `Ask` over `Allow`. An exception denies.",
    "notify": "Every plugin is told. Results are ignored, exceptions are recorded.",
}
"""What a policy means, for readers. A policy without a line here is a KeyError: no page may lack it."""
KINDS = {
    "string": "text",
    "null": "nothing",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "array": "list of texts",
    "object": "table of name = true or false",
}
"""JSON schema's types as the table of fields names them."""
AUTHORS_TYPES = (
    "AgentContext",
    "PluginOptions",
    "StateSlot",
    "DeepAgentDeps",
    "PromptSection",
    "Processor",
    "Contribution",
    "SkillMeta",
    "SkillLoader",
    "ToolCall",
    "Allow",
    "Ask",
    "Deny",
    "RunEvent",
    "RunStartEvent",
    "RunEndEvent",
    "RequestEvent",
    "ToolEvent",
    "ApprovalEvent",
    "CompactionEvent",
)
"""What hooks are given and return, in the order of the page that describes them."""
MAY_BE_ASYNC = ("notify", "deny")
SYNC_NOTIFY = ("deep_agent_created",)
"""Called while the agent is made, where nothing can be awaited."""


@dataclass(frozen=True)
class Hook:
    """One hook, as its function in `deep_core/hookspecs.py` describes it.

    Attributes:
        name: the hook's name.
        function: the spec.
        policy: how it is called.
        summary: the first line of the docstring.
        sections: the texts of `SECTIONS`, dedented.
    """

    name: str
    function: Callable[..., Any]
    policy: HookPolicy
    summary: str
    sections: Mapping[str, str]

    @property
    def call(self) -> str:
        """`deep_toolsets(context)`: the page's heading, which a test compares with the spec."""
        return f"{self.name}({', '.join(inspect.signature(self.function).parameters)})"

    @property
    def signature(self) -> str:
        """The definition with its types, one line."""
        signature = inspect.signature(self.function)
        given = ", ".join(f"{p.name}: {p.annotation}" for p in signature.parameters.values())
        return f"def {self.name}({given}) -> {signature.return_annotation}"

    @property
    def returns(self) -> str:
        """The declared return type."""
        return str(inspect.signature(self.function).return_annotation)


def hooks() -> list[Hook]:
    """Every hook of the kernel, in the order in which it is declared.

    Raises:
        ValueError: a docstring lacks one of `SECTIONS`.
    """
    return [
        _hook(name, function)
        for name, function in vars(hookspecs).items()
        if inspect.isfunction(function) and hasattr(function, "deep_policy")
    ]


def _hook(name: str, function: Callable[..., Any]) -> Hook:
    text = inspect.getdoc(function) or ""
    found: dict[str, list[str]] = {"": []}
    current = ""
    for line in text.splitlines():
        heading = re.fullmatch(r"([A-Z][a-z]+):", line)
        if heading:
            current = heading[1]
            found[current] = []
        else:
            found[current].append(line)
    missing = [section for section in SECTIONS if section not in found]
    if missing:
        raise ValueError(f"deep_core/hookspecs.py: {name} has no section {', '.join(missing)} in its docstring")
    sections = {key: textwrap.dedent("\n".join(lines)).strip() for key, lines in found.items() if key}
    policy = cast("HookPolicy", cast("Any", function).deep_policy)
    return Hook(name, function, policy, " ".join(found[""]).strip(), sections)


def hook_page(hook: Hook) -> str:
    """The page of one hook."""
    kind = "may be `async def`" if _may_be_async(hook) else "a plain function; `async def` is an error"
    return "\n".join(
        [
            f"# {hook.call}",
            "",
            hook.summary,
            "",
            "```text",
            hook.signature,
            "```",
            "",
            "| | |",
            "|---|---|",
            f"| Policy | `{hook.policy.policy}`: {POLICIES[hook.policy.policy]} |",
            f"| Returns | {_code_cell(hook.returns)} |",
            f"| Implementation | {kind} |",
            "",
            "## Called",
            "",
            hook.sections["Called"],
            "",
            "## Result",
            "",
            hook.sections["Result"],
            "",
            "## Example",
            "",
            "```python",
            hook.sections["Example"],
            "```",
            "",
            "An implementation takes the arguments it needs, by name, and may leave the others out.",
            *([f"Types: {_linked(used)}."] if (used := _types_in(hook.signature)) else []),
            "",
        ]
    )


def _types_in(signature: str) -> list[str]:
    named = [name for name in re.findall(r"\w+", signature) if name in AUTHORS_TYPES]
    return list(dict.fromkeys([*named, *(["Allow", "Ask", "Deny"] if "Verdict" in signature else [])]))


def _linked(names: Iterable[str]) -> str:
    return ", ".join(f"[`{name}`](../reference/plugin-types.md#{name.lower()})" for name in names)


def _may_be_async(hook: Hook) -> bool:
    return hook.policy.policy in MAY_BE_ASYNC and hook.name not in SYNC_NOTIFY


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")


def _code_cell(code: str) -> str:
    # Markdown's own code cannot hold a pipe in a table: GitHub wants it escaped, Python-Markdown shows the escape.
    return f"<code>{_cell(html.escape(code))}</code>" if "|" in code else f"`{code}`"


def hook_index(found: Sequence[Hook]) -> str:
    """The table of all hooks, and what the policies mean."""
    lines = [
        "# Hooks",
        "",
        "A plugin is a module or object whose functions are marked `@deep_core.hookimpl`. Each contributes one kind of",
        "thing. The pages are made from `deep_core/hookspecs.py`, and a test runs every example.",
        "",
        "| Hook | Contributes | Policy | May be async |",
        "|---|---|---|---|",
    ]
    for hook in found:
        may = "yes" if _may_be_async(hook) else "no"
        lines.append(f"| [`{hook.call}`]({hook.name}.md) | {_cell(hook.summary)} | `{hook.policy.policy}` | {may} |")
    used = dict.fromkeys(hook.policy.policy for hook in found)
    lines += ["", "## Policies", "", "| Policy | What becomes of results and exceptions |", "|---|---|"]
    lines += [f"| `{policy}` | {POLICIES[policy]} |" for policy in used]
    lines += [
        "",
        "Hooks are called one implementation at a time, each in its own containment. [How plugins work]"
        "(../how-plugins-work.md) tells in which order.",
        "[What they are given and return](../reference/plugin-types.md) has every field and method.",
        "",
    ]
    return "\n".join(lines)


def types_page() -> str:
    """What hooks are given and return: every type's fields and methods, from its docstrings."""
    lines = [
        "# What hooks are given and return",
        "",
        "`from deep_core import` gives all of them; the kinds of events are in `deep_core.events`. The page is made",
        "from the docstrings, so your editor shows the same.",
        "",
    ]
    for name in AUTHORS_TYPES:
        kind: type = getattr(events, name, None) or getattr(deep_core, name)
        lines += _type_section(name, kind)
    return "\n".join(lines)


def _type_section(name: str, kind: type) -> list[str]:
    text, attributes = _attributes(inspect.getdoc(kind) or "")
    lines = [f"## {name}", "", text, ""]
    rows = [(field, _declared(kind, field), attributes.get(field, "")) for field in _fields_of(kind, attributes)]
    typed = any(declared for _, declared, _ in rows)
    if rows:
        lines += ["| | Type | |", "|---|---|---|"] if typed else ["| | |", "|---|---|"]
        for field, declared, said in rows:
            lines.append(f"| `{field}` | {f'{_code_cell(declared)} | ' if typed else ''}{_cell(said)} |")
        lines.append("")
    for method, function in _methods(kind):
        said = " ".join((inspect.getdoc(function) or "").partition("\n\nRaises:")[0].split())
        lines += [f"- `{method}`: {said}"]
    return [*lines, ""] if lines[-1] else lines


def _attributes(text: str) -> tuple[str, dict[str, str]]:
    """A docstring without its `Attributes:`, and these by name."""
    prose, _, listed = text.partition("\nAttributes:\n")
    found: dict[str, str] = {}
    for match in re.finditer(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", listed, re.M):
        found[match[1]] = " ".join(match[2].split())
    return prose.strip(), found


def _fields_of(kind: type, attributes: Mapping[str, str]) -> list[str]:
    own = [
        name for name in vars(kind).get("__annotations__", {}) if not name.startswith("_") and name != "model_config"
    ]
    return list(dict.fromkeys([*own, *attributes]))


def _declared(kind: type, field: str) -> str:
    annotation: Any = vars(kind).get("__annotations__", {}).get(field, "")
    annotation = getattr(annotation, "__forward_arg__", annotation)  # a NamedTuple's
    default = getattr(kind, field, inspect.Parameter.empty)
    shown = isinstance(default, str | int | float | bool) or default == () or default is None
    return f"{annotation} = {default!r}" if annotation and shown else annotation


def _methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in dict(vars(kind)).items():
        function: Any = getattr(value, "__func__", getattr(value, "fget", value))
        if name.startswith("_") or not inspect.isfunction(function) or name == "stops":
            continue
        if isinstance(value, property):
            yield name, function
        else:
            given = [str(p.replace(annotation=p.empty)) for p in inspect.signature(function).parameters.values()]
            yield f"{name}({', '.join(given[1:])})", function


def schema() -> dict[str, Any]:
    """The JSON schema of `[agent]`."""
    return AgentConfig.model_json_schema()


def schema_page() -> str:
    """Every field of `[agent]` in a table, and the fields that nothing honours yet."""
    lines = [
        "# The fields of `[agent]`",
        "",
        "What an agent is and may do, as data: the table `[agent]` of a configuration file, or `AgentConfig` in code.",
        "An unknown key is an error with a suggestion. The same as JSON schema: [config-schema.json]"
        "(config-schema.json).",
        "",
        "| Field | Type | Default | Meaning |",
        "|---|---|---|---|",
    ]
    tree = schema()
    lines += [f"| `{path}` | {kind} | {default} | {_cell(text)} |" for path, kind, default, text in _fields(tree, tree)]
    lines += [
        "",
        '`model` is also taken as one text: `model = "anthropic:claude-sonnet-4-5"`.',
        "",
        "## Refused for now",
        "",
        "Known names that no installed code honours yet. Setting one is an error, so that nobody relies on a setting",
        "without effect.",
        "",
        "| Field | Comes with |",
        "|---|---|",
    ]
    lines += [f"| `{path}` | {by} |" for path, by in sorted(LATER.items())]
    return "\n".join([*lines, ""])


def _fields(node: Mapping[str, Any], root: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    for name, field in node["properties"].items():
        reference = field.get("$ref")
        if reference is not None:
            yield from _fields(root["$defs"][reference.rpartition("/")[2]], root, f"{prefix}{name}.")
            continue
        default = f"`{json.dumps(field['default'])}`" if "default" in field else "empty"
        yield prefix + name, _kind(field), default, " ".join(field["description"].split())


def _kind(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    options = field.get("anyOf", [field])
    return " or ".join(_one_kind(option) for option in options)


def _one_kind(option: Mapping[str, Any]) -> str:
    kind = KINDS[option["type"]]
    if "minimum" in option:
        kind += f" from {option['minimum']:,} to {option['maximum']:,}"
    if "maxLength" in option:
        kind += f" of at most {option['maxLength']:,} characters"
    return kind


def decisions_page(pages: Iterable[Path]) -> str:
    """The list of decisions, each by its first heading."""
    lines = [
        "# Decisions",
        "",
        "What somebody will question: context, choice, consequences. One page a decision.",
        "",
    ]
    listed = [f"- [{_heading(page)}]({page.name})" for page in sorted(pages) if page.name != "index.md"]
    return "\n".join([*lines, *(listed or ["None is written down yet."]), ""])


def _heading(page: Path) -> str:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    raise ValueError(f"{page}: a decision needs a first-level heading (# Title)")


def render() -> dict[Path, str]:
    """Every generated file: path -> content."""
    found = hooks()
    files = {DOCS / "hooks" / f"{hook.name}.md": hook_page(hook) for hook in found}
    files[DOCS / "hooks" / "index.md"] = hook_index(found)
    files[DOCS / "reference" / "config-schema.md"] = schema_page()
    files[DOCS / "reference" / "plugin-types.md"] = types_page()
    files[DOCS / "reference" / "config-schema.json"] = json.dumps(schema(), indent=2, sort_keys=True) + "\n"
    files[DOCS / "decisions" / "index.md"] = decisions_page((DOCS / "decisions").glob("*.md"))
    return files


def stale(files: Mapping[Path, str]) -> list[Path]:
    """Hook pages that no hook has any more."""
    return sorted(path for path in (DOCS / "hooks").glob("*.md") if path not in files)


def differences(files: Mapping[Path, str]) -> str:
    """What would change, as a unified diff; empty where nothing would."""
    out: list[str] = []
    for path, text in sorted(files.items()):
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        name = path.relative_to(DOCS.parent).as_posix()
        out += difflib.unified_diff(old.splitlines(), text.splitlines(), name, f"{name} (generated)", lineterm="")
    out += [f"{path.relative_to(DOCS.parent).as_posix()}: no hook has this name; delete it" for path in stale(files)]
    return "\n".join(out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or compare them. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 with a diff if something would")
    check: bool = parser.parse_args(arguments).check
    files = render()
    if check:
        difference = differences(files)
        if difference:
            print(f"{difference}\n\nThe generated pages are out of date; run: python docs/generate.py")
        return 1 if difference else 0
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in stale(files):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
