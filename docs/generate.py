"""Write the generated pages: hooks, commands, the fields of `[agent]`, the options of plugins, tool dialects,
decisions, and all plugins, which `deep plugins search` reads too.

In other pages, write the table of the keys of a plugin's section between `<!-- settings -->` and `<!-- end -->`.

    python docs/generate.py            write them
    python docs/generate.py --check    exit 1 and print a diff if a committed page is out of date
    python docs/generate.py --words    print the words that are written by hand, page by page

It needs deep_core and deep's own plugins. The output depends only on the sources.
"""

from __future__ import annotations

import argparse
import difflib
import html
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import click
from deep_cli.main import deep
from deep_universe import TextDriver, ToolCall, ToolResult, default_drivers
from pydantic import BaseModel

from deep_core import AgentConfig
from deep_core.agent.config import HONORED_BY, Narrows
from deep_core.plugins import hookspecs
from deep_core.plugins.markers import HookPolicy
from deep_core.plugins.options import PluginOptions, field_docs, project_mark
from deep_core.plugins.settings import SETTINGS, PluginSettings

DOCS = Path(__file__).resolve().parent
REFERENCE = DOCS / "reference"
INDEX, OF_OTHERS, FACTS = DOCS / "index.md", DOCS / "plugins-of-others.toml", DOCS / "plugin_facts.py"
"""What the page of all plugins is made from."""
SECTIONS = ("Called", "Result", "Example")
POLICIES = {
    "collect": "The kernel joins the results of all plugins. It leaves out a plugin that raises or returns the wrong "
    "type, with everything that the plugin contributes.",
    "one": "Each plugin returns at most one result. The kernel leaves out a plugin that raises.",
    "first": "The kernel calls the plugins in order until one returns something other than `None`. It skips a plugin "
    "that raises.",
    "deny": "The kernel calls every plugin. The strictest answer wins: `Deny` over `Ask` over `Allow`. An exception "
    "denies.",
    "notify": "The kernel calls every plugin. It ignores results and records exceptions.",
}
"""What each policy means. A policy without a line here raises a KeyError, so that no page lacks it."""
KINDS = {
    "string": "string",
    "null": "nothing",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "array": "list of strings",
    "object": "table of name = true or false",
}
"""JSON schema type -> the word in the table of fields."""
EFFECTS: Mapping[str | None, str] = {
    None: "ignored",
    "free": "any value",
    "off": "only `false`",
    "on": "only `true`",
    "lower": "only a lower value than yours",
    "subset": "only a part of your list",
    "superset": "only additions to your list",
}
"""The mark of an option -> the words in the table. A mark without words raises a KeyError."""
BRINGS = {
    "deep_backends": "backends",
    "deep_capabilities": "capabilities",
    "deep_chat_commands": "commands of chats",
    "deep_check_call": "checks of calls",
    "deep_history_processors": "history processors",
    "deep_mcp_servers": "MCP servers",
    "deep_prompt_sections": "prompt sections",
    "deep_resolve_model": "models",
    "deep_run_event": "notices of events",
    "deep_session_deleted": "",
    "deep_session_stores": "stores of sessions",
    "deep_skill_loaders": "skills",
    "deep_subagents": "types of subagents",
}
"""Hook -> what a user gets. A hook that is not here stands with its name."""
MAY_BE_ASYNC = ("notify", "deny")
SYNC_NOTIFY = ("deep_agent_created",)
"""The kernel calls these while it creates an agent, where it cannot await."""
COMMON = 3
"""An option that means the same in so many commands stands once, before them."""
VALUES = {"FLOAT RANGE": "SECONDS", "INTEGER RANGE": "N"}
"""click's words for the value of an option that has none of its own -> ours."""
WIDTH = 120
"""Columns of a generated paragraph."""
GENERATED = ("hooks/*.md", "reference/*.md", "decisions/index.md", "plugins.md")
"""The pages that this file writes, and those that are made from docstrings."""
TABLE = re.compile(r"^<!-- settings -->\n.*?^<!-- end -->$", re.M | re.S)
"""A generated table in a page that is written by hand."""


@dataclass(frozen=True)
class Hook:
    """One hook, as its function in `deep_core/plugins/hookspecs.py` describes it.

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
        """The page's heading, `deep_toolsets(context)`. A test compares it with the spec."""
        return f"{self.name}({', '.join(inspect.signature(self.function).parameters)})"

    @property
    def signature(self) -> str:
        """The definition with its types, on one line."""
        signature = inspect.signature(self.function)
        given = ", ".join(f"{p.name}: {p.annotation}" for p in signature.parameters.values())
        return f"def {self.name}({given}) -> {signature.return_annotation}"

    @property
    def returns(self) -> str:
        """The declared return type."""
        return str(inspect.signature(self.function).return_annotation)


def hooks() -> list[Hook]:
    """Return the hooks of the kernel in the order of their declaration.

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
        raise ValueError(f"deep_core/plugins/hookspecs.py: {name} has no section {', '.join(missing)} in its docstring")
    sections = {key: textwrap.dedent("\n".join(lines)).strip() for key, lines in found.items() if key}
    policy = cast("HookPolicy", cast("Any", function).deep_policy)
    return Hook(name, function, policy, " ".join(found[""]).strip(), sections)


def hook_page(hook: Hook) -> str:
    """Write the page of one hook."""
    links = reference()
    types = ", ".join(f"[`{name}`]({links[name]})" for name in _types_in(hook.signature, links))
    kind = "a plain function, or `async def`" if _may_be_async(hook) else "a plain function; `async def` is an error"
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
            "An implementation declares the arguments that it needs, by name. It may omit the others.",
            *([f"Types: {types}."] if types else []),
            "",
        ]
    )


def _types_in(signature: str, documented: Iterable[str]) -> list[str]:
    named = [name for name in re.findall(r"\w+", signature) if name in documented]
    return list(dict.fromkeys([*named, *(["Allow", "Ask", "Deny"] if "Verdict" in signature else [])]))


def reference() -> dict[str, str]:
    """Map each class and function that the reference documents to its link from a hook page."""
    return {
        path.rpartition(".")[2]: f"../reference/{page.name}#{path}"
        for page in sorted(REFERENCE.glob("*.md"))
        for path in re.findall(r"^::: (deep_core\.[\w.]+)$", page.read_text(encoding="utf-8"), re.M)
    }


def _may_be_async(hook: Hook) -> bool:
    return hook.policy.policy in MAY_BE_ASYNC and hook.name not in SYNC_NOTIFY


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")


def _code_cell(code: str) -> str:
    # Markdown's own code cannot hold a pipe in a table: GitHub wants it escaped, Python-Markdown shows the escape.
    return f"<code>{_cell(html.escape(code))}</code>" if "|" in code else f"`{code}`"


def hook_index(found: Sequence[Hook]) -> str:
    """Write the table of hooks and the table of policies."""
    lines = [
        "# Hooks",
        "",
        "A plugin is a module or an object. Its functions marked with `@deep_core.hookimpl` implement hooks. Each hook",
        "has a page with an example. Tests run all examples.",
        "",
        "| Hook | Contributes | Policy | May be async |",
        "|---|---|---|---|",
    ]
    for hook in found:
        may = "yes" if _may_be_async(hook) else "no"
        lines.append(f"| [`{hook.call}`]({hook.name}.md) | {_cell(hook.summary)} | `{hook.policy.policy}` | {may} |")
    used = dict.fromkeys(hook.policy.policy for hook in found)
    lines += ["", "## Policies", "", "| Policy | What the kernel does with results and exceptions |", "|---|---|"]
    lines += [f"| `{policy}` | {POLICIES[policy]} |" for policy in used]
    lines += [
        "",
        "The kernel calls one implementation at a time. [Order plugins](../how-plugins-work.md#order-plugins) explains",
        "the order. The [plugin API](../reference/plugin-api.md) documents what hooks receive and return.",
        "",
    ]
    return "\n".join(lines)


def schema() -> dict[str, Any]:
    """Return the JSON schema of `[agent]`."""
    return AgentConfig.model_json_schema()


def schema_page() -> str:
    """Write the table of the fields of `[agent]`, and the list of those that a plugin honors."""
    lines = [
        "# The fields of `[agent]`",
        "",
        "These fields describe an agent and what it may do. Set them in the table `[agent]` of a configuration file,",
        "or with `AgentConfig` in code. An unknown key is an error with a suggestion. There is also a",
        "[JSON schema](config-schema.json).",
        "",
        "| Field | Type | Default | Meaning | From an untrusted project |",
        "|---|---|---|---|---|",
    ]
    tree, marks = schema(), dict(_marks(AgentConfig))
    for path, kind, default, text in _fields(tree, tree):
        lines.append(f"| `{path}` | {kind} | {default} | {_cell(text)} | {_project(marks[path])} |")
    lines += [
        "",
        '`model` also accepts one string: `model = "anthropic:claude-sonnet-4-5"`.',
        "",
        "## Fields that need a plugin",
        "",
        "Setting one of these without its plugin is an error, because it would have no effect.",
        "",
        "| Field | Plugin |",
        "|---|---|",
    ]
    lines += [f"| `{path}` | `deep-{plugin}` |" for path, plugin in sorted(HONORED_BY.items())]
    return "\n".join([*lines, ""])


def _marks(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Narrows | None]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _marks(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, next((mark for mark in field.metadata if isinstance(mark, Narrows)), None)


def _project(mark: Narrows | None) -> str:
    if mark is None:
        return "ignored"
    return "added" if mark.never is None else f"added; `{str(mark.never).lower()}` is ignored"


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
    if "enum" in option:
        return ", ".join(f"`{json.dumps(value)}`" for value in option["enum"])
    kind = KINDS[option["type"]]
    if option["type"] == "object" and "type" not in option["additionalProperties"]:
        kind = "table"
    if "minimum" in option and "maximum" not in option:
        kind += f" from {option['minimum']:,}"
    elif "exclusiveMinimum" in option:
        kind += f" above {option['exclusiveMinimum']:,}"
    elif "minimum" in option:
        kind += f" from {option['minimum']:,} to {option['maximum']:,}"
    if "maxLength" in option:
        kind += f" of at most {option['maxLength']:,} characters"
    return kind


def with_tables(page: str) -> str:
    """Write the table of the keys of `[plugins.<name>]` that a page asks for."""
    return re.sub(
        r"^(<!-- settings -->\n).*?^(<!-- end -->)$",
        lambda found: f"{found[1]}{settings_table()}\n{found[2]}",
        page,
        flags=re.M | re.S,
    )


def settings_table() -> str:
    """Write the table of the keys of `[plugins.<name>]`."""
    docs = field_docs(PluginSettings)
    lines = ["| Key | Value | Effect |", "|---|---|---|"]
    for key, setting in SETTINGS.items():
        lines.append(f"| `{key}` | {_cell(setting.expected)} | {_cell(' '.join(docs[key].split()))} |")
    return "\n".join(lines)


def options_page() -> str:
    """Write every option of deep's own plugins, and what an untrusted project's file may do to it."""
    lines = [
        "# Options of plugins",
        "",
        "Set these in `[plugins.<name>.options]`, or in code with the class of the plugin's module. *Project*: what a",
        "project's `deep.toml` that you do not [trust](../configuration.md#what-a-projects-file-may-say) can set.",
    ]
    for plugin, model in options_models().items():
        package = model.__module__.partition(".")[0]
        lines += ["", f"## {plugin}", "", f"`from {package} import {model.__name__}`", ""]
        lines += ["| Option | Default | Meaning | Project |", "|---|---|---|---|"]
        docs = field_docs(model)
        for name, default in model().model_dump(mode="json").items():
            shown = "none" if default is None else f"`{_toml(default)}`"
            effect = EFFECTS[project_mark(model.model_fields[name])]
            lines.append(f"| `{name}` | {shown} | {_cell(' '.join(docs[name].split()))} | {effect} |")
    return "\n".join([*lines, ""])


def options_models() -> dict[str, type[PluginOptions]]:
    """Return the options of deep's own plugins, by the plugin's name."""
    found: dict[str, type[PluginOptions]] = {}
    for path in sorted(DOCS.parent.glob("plugins/*/src/*/options.py")):
        module = import_module(f"{path.parent.name}.options")
        (model,) = [
            each
            for name, each in vars(module).items()
            if isinstance(each, type) and issubclass(each, PluginOptions) and re.fullmatch(r"\w+Options", name)
            if each is not PluginOptions
        ]
        project = tomllib.loads((path.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        points = {re.split("[.:]", point)[0]: name for name, point in project["entry-points"]["deep"].items()}
        found[points[path.parent.name]] = model
    return found


def _toml(value: Any) -> str:
    """Write a value as a user would in a configuration file."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in table.items())}}}"
    return f"{value:_}" if type(value) is int else json.dumps(value)


def dialects_page() -> str:
    """Write one exchange in each dialect of deep-universe, as its driver writes it."""
    weather = [
        ToolCall("1", "get_weather", {"city": "Oslo", "days": 1}),
        ToolCall("2", "get_weather", {"city": "<Rome>"}),
    ]
    results = [
        ToolResult("1", "Sunny, 14 °C", meta={"tool": "get_weather"}),
        ToolResult("2", error="no forecast for <Rome>", meta={"tool": "get_weather"}),
    ]
    lines = [
        "# Dialects",
        "",
        "What each [dialect](../tool-dialects.md) looks like: first the model's reply, then what goes back. The model",
        "asks for the weather in `Oslo` and in `<Rome>`; the tool answers the first call and fails at the second.",
    ]
    for driver in default_drivers():
        if isinstance(driver, TextDriver):
            lines += ["", f"## `{driver.name}`", "", inspect.getdoc(type(driver)) or ""]
            lines += ["", '````text title="reply"', str(driver.encode_calls(weather)).strip("\n"), "````"]
            lines += ["", '````text title="results"', str(driver.encode_results(results)).strip("\n"), "````"]
    return "\n".join([*lines, ""])


@cache
def plugin_facts() -> list[dict[str, Any]]:
    """Return what the plugins of this checkout bring and cost; `docs/plugin_facts.py` finds it out."""
    with TemporaryDirectory() as folder:
        home = {"HOME": folder, **{f"XDG_{name}_HOME": folder for name in ("CONFIG", "CACHE", "DATA")}}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DEEP_", "XDG_"))}
        command = [sys.executable, str(FACTS)]
        done = subprocess.run(command, cwd=folder, env={**kept, **home}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def known_plugins() -> list[dict[str, Any]]:
    """Return every plugin for the page and for `deep plugins search`: this project's, then those of others."""
    index = INDEX.read_text(encoding="utf-8")
    pages = dict(re.findall(r"\[(deep-[\w-]+)\]\(([\w.#-]+)\)", index))
    pages |= dict(re.findall(r"^\| (deep-[\w-]+) \| \[`\w+`\]\(([\w.#-]+)\)", index, re.M))
    found: list[dict[str, Any]] = []
    for facts in plugin_facts():
        words = [BRINGS.get(hook, hook.removeprefix("deep_")) for hook in facts["hooks"]]
        parts = [f"`{name}`" for name in facts["tools"]] + [word for word in words if word]
        parts += [f"the command `deep {name}`" for name in facts["commands"]]
        url = pages.get(facts["distribution"], "")
        kept = {key: facts[key] for key in ("name", "distribution", "about", "tokens", "modules", "requires")}
        found.append({**kept, "brings": ", ".join(parts), "url": url})
    others = tomllib.loads(OF_OTHERS.read_text(encoding="utf-8")).get("plugin", [])
    return [*found, *({**other, "others": True} for other in others)]


def plugins_page(known: Sequence[Mapping[str, Any]]) -> str:
    """Write the table of all plugins."""
    lines = [
        "# All plugins",
        "",
        "`deep plugins search WORD` searches this list. It also asks the index for distributions with the keyword",
        "`deep-plugin`.",
        "",
        "## Of this project",
        "",
        "*Tokens* is what a plugin adds to each request of an agent with all of these plugins and no configuration.",
        "*Modules* is how many modules its import loads at every start, without the standard library and deep_core;",
        "none of them is pydantic or Pydantic AI. *Needs* are distributions of others.",
        "",
        "| Plugin | Distribution | Brings | Tokens | Modules | Needs |",
        "|---|---|---|---|---|---|",
    ]
    for each in known:
        if "others" not in each:
            name = f"[`{each['name']}`]({each['url']})" if each["url"] else f"`{each['name']}`"
            brings = " ".join(filter(None, (each["about"], each["brings"] and f"Brings {each['brings']}.")))
            needs = ", ".join(each["requires"])
            cells = (name, each["distribution"], brings, each["tokens"], each["modules"], needs)
            lines.append(f"| {' | '.join(_cell(str(cell)) for cell in cells)} |")
    lines += ["", "## Of others", ""]
    others = [each for each in known if "others" in each]
    if others:
        lines += ["| Plugin | Distribution | Brings | Tokens |", "|---|---|---|---|"]
    for each in others:
        brings = f"{each['about']} Brings {each['brings']}."
        cells = (f"[`{each['name']}`]({each['url']})", each["distribution"], brings, each["tokens"])
        lines.append(f"| {' | '.join(_cell(str(cell)) for cell in cells)} |")
    lines += [
        *([""] if others else []),
        "To add yours, give its distribution the keyword `deep-plugin`, as the template of `deep new` does, and add an",
        "entry to `docs/plugins-of-others.toml`:",
        "",
        "```text",
        *(line.removeprefix("# ") for line in OF_OTHERS.read_text(encoding="utf-8").split("#\n", 1)[1].splitlines()),
        "```",
        "",
        "A plugin is code in your process. [Publishing](publishing.md) says what others expect of yours, and",
        "[Installing plugins](installing-plugins.md) how they install it.",
        "",
    ]
    return "\n".join(lines)


def commands() -> dict[str, click.Context]:
    """Return every command by what is typed, as `deep plugins list`, with its context."""
    return dict(_leaves(click.Context(deep, info_name="deep")))


def _leaves(context: click.Context) -> Iterator[tuple[str, click.Context]]:
    command = context.command
    if not isinstance(command, click.Group):
        yield context.command_path, context
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None and not found.hidden:
            yield from _leaves(click.Context(found, parent=context, info_name=name))


def commands_page(found: Mapping[str, click.Context]) -> str:
    """Write usage, text and options of every command."""
    options = {name: _options(context) for name, context in found.items()}
    uses = Counter(option for each in options.values() for option in each)
    common = [option for option, count in uses.items() if count >= COMMON]
    lines = [
        "# Commands and options",
        "",
        "[The command line](../command-line.md) says which command to use. `deep COMMAND --help` prints the same.",
        "",
        "## Common options",
        "",
        *_option_table(common),
    ]
    for name, context in sorted(found.items()):
        usage = context.get_usage().removeprefix("Usage: ").split()
        lines += ["", f"## {name}", "", "```text", " ".join(usage), "```", "", _prose(context.command.help or "")]
        if own := [option for option in options[name] if option not in common]:
            lines += ["", *_option_table(own)]
        if shared := [option.typed[0] for option in options[name] if option in common]:
            lines += ["", f"Also [common options](#common-options): {', '.join(f'`{typed}`' for typed in shared)}."]
    return "\n".join([*lines, ""])


@dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes:
        typed: its names, the long one first.
        value: what follows it, empty for a flag.
        about: what it does.
    """

    typed: tuple[str, ...]
    value: str
    about: str


def _options(context: click.Context) -> list[Option]:
    return [
        Option(
            tuple(sorted(param.opts, key=len, reverse=True)),
            "" if param.is_flag else _value(param, context),
            " ".join((param.help or "").split()),
        )
        for param in context.command.params
        if isinstance(param, click.Option) and not param.hidden
    ]


def _value(option: click.Option, context: click.Context) -> str:
    shown = option.make_metavar(context)
    return shown[1:-1] if isinstance(option.type, click.Choice) else VALUES.get(shown, shown)


def _option_table(options: Iterable[Option]) -> list[str]:
    rows = ["| Option | Meaning |", "|---|---|"]
    for option in options:
        first, *others = option.typed
        names = [_code_cell(f"{first} {option.value}".strip()), *(f"`{name}`" for name in others)]
        rows.append(f"| {', '.join(names)} | {_cell(html.escape(option.about, quote=False))} |")
    return rows


def _prose(text: str) -> str:
    """A help text as Markdown: its paragraphs on lines as wide as the page's."""
    parts = re.split(r"\n\s*\n", html.escape(inspect.cleandoc(text.replace("\b", "")), quote=False))
    return "\n\n".join(textwrap.fill(" ".join(part.split()), WIDTH, break_on_hyphens=False) for part in parts)


def measured_page() -> str:
    """Write the tables of the runs of `deep eval` that are published, from their rows."""
    from deep_trials.reports import markdown_of
    from deep_trials.rows import read_rows

    folder = Path(__file__).resolve().parents[1] / "plugins" / "trials" / "measured"
    lines = [
        "# What was measured",
        "",
        "Runs of [`deep eval`](../measuring.md). Only what was run is here: each rate with the number of its trials",
        "and its 95 % interval. `tokens` are those of a trial, in and out.",
    ]
    for run in tomllib.loads((folder / "runs.toml").read_text(encoding="utf-8"))["run"]:
        table = markdown_of(read_rows(folder / run["file"]))
        lines += ["", f"## {run['title']}", "", f"```console\n$ {run['command']}\n```", ""]
        lines += [f"{run['date']}. {_prose(run['about'])}", "", *table]
    return "\n".join([*lines, ""])


def decisions_page(pages: Iterable[Path]) -> str:
    """Write the list of decisions, each with its first heading."""
    lines = [
        "# Decisions",
        "",
        "Each page explains one decision: its context, the choice, and the consequences.",
        "",
    ]
    listed = [f"- [{_heading(page)}]({page.name})" for page in sorted(pages) if page.name != "index.md"]
    return "\n".join([*lines, *(listed or ["There are none yet."]), ""])


def _heading(page: Path) -> str:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    raise ValueError(f"{page}: a decision needs a first-level heading (# Title)")


def render() -> dict[Path, str]:
    """Return every generated file: path -> content."""
    found = hooks()
    files = {DOCS / "hooks" / f"{hook.name}.md": hook_page(hook) for hook in found}
    files[DOCS / "hooks" / "index.md"] = hook_index(found)
    files[DOCS / "reference" / "commands.md"] = commands_page(commands())
    files[DOCS / "reference" / "config-schema.md"] = schema_page()
    files[DOCS / "reference" / "options.md"] = options_page()
    files[DOCS / "reference" / "dialects.md"] = dialects_page()
    files[DOCS / "reference" / "measured.md"] = measured_page()
    files[DOCS / "reference" / "config-schema.json"] = json.dumps(schema(), indent=2, sort_keys=True) + "\n"
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))}
    files |= {page: with_tables(text) for page, text in pages.items() if "<!-- settings" in text}
    known = known_plugins()
    files[DOCS / "plugins.md"] = plugins_page(known)
    files[DOCS / "plugins.json"] = json.dumps(known, indent=1, ensure_ascii=False) + "\n"
    files[DOCS / "decisions" / "index.md"] = decisions_page((DOCS / "decisions").glob("*.md"))
    return files


def written_words() -> dict[Path, int]:
    """Count the words of each page that a person writes, without generated pages and tables."""
    generated = {page for pattern in GENERATED for page in DOCS.glob(pattern)}
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page not in generated]
    return {page: len(TABLE.sub("", page.read_text(encoding="utf-8")).split()) for page in pages}


def stale(files: Mapping[Path, str]) -> list[Path]:
    """Find hook pages whose hook no longer exists."""
    return sorted(path for path in (DOCS / "hooks").glob("*.md") if path not in files)


def differences(files: Mapping[Path, str]) -> str:
    """Return the changes as a unified diff, or an empty string."""
    out: list[str] = []
    for path, text in sorted(files.items()):
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        name = path.relative_to(DOCS.parent).as_posix()
        out += difflib.unified_diff(old.splitlines(), text.splitlines(), name, f"{name} (generated)", lineterm="")
    out += [f"{path.relative_to(DOCS.parent).as_posix()}: no hook has this name; delete it" for path in stale(files)]
    return "\n".join(out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, compare them, or count their words. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 with a diff if something would")
    parser.add_argument("--words", action="store_true", help="count the words that a person writes, page by page")
    chosen = parser.parse_args(arguments)
    if chosen.words:
        counts = written_words()
        for page, count in sorted(counts.items(), key=lambda each: each[1]):
            print(f"{count:7,} {page.relative_to(DOCS)}")
        print(f"{sum(counts.values()):7,} words")
        return 0
    files = render()
    if chosen.check:
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
