"""`deep config`: show, schema, export, init, trust."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..failure import FAILED, USAGE, Failure
from ..flags import config_option, json_option, plugin_option, verbose_option
from ..terminal.output import confirm, say, say_json, say_text
from ..terminal.screen import label, redirect_prints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deep_core import Kernel
    from deep_core.plugin_api import ConfigFile

    from .settings import Value

__all__ = ["config"]


@click.group()
@verbose_option
def config() -> None:
    """Show, create or trust the configuration."""


@config.command()
@json_option
@plugin_option
@config_option
@verbose_option
def show(as_json: bool, plugin_files: tuple[Path, ...], config: Path | None) -> None:
    """Show every value in effect and its source. Secrets are masked."""
    from deep_core import Kernel

    from ..plugins.files import load_plugin_files

    with redirect_prints(), Kernel(plugins=load_plugin_files(plugin_files), config=config) as kernel:
        effective = _effective(kernel)
    if as_json:
        say_json(_json(effective))
        return
    for file in effective["files"]:
        say(f"# read: {label(file['path'])}" + ("" if file["trusted"] else " (not trusted; deep config trust)"))
    for key in effective["ignored"]:
        say(f"# ignored: {label(key)}")
    _print("agent", effective["agent"])
    if effective["lists"]:
        say("\n[plugins]")
        for name, entries in effective["lists"].items():
            text = ", ".join(f"{entry['name']} ({entry['source']})" for entry in entries)
            say(label(f"{name} = {text or 'nothing'}"))
    for name, parts in effective["plugins"].items():
        _print(f"plugins.{name}", parts["settings"])
        _print(f"plugins.{name}.options", parts["options"])


def _effective(kernel: Kernel) -> dict[str, Any]:
    from deep_core.plugin_api import ignored_keys

    from .settings import option_values, setting_values, values_of_agent

    models = kernel.option_models()
    plugins: dict[str, Any] = {}
    for name in kernel.plugins:
        settings = kernel.config.plugin(name)
        plugins[name] = {
            "settings": setting_values(settings),
            "options": option_values(settings, models.get(name), name),
        }
    lists = {name: kernel.config.plugin_list(name) for name in ("allow", "disable", "require")}
    return {
        "files": [
            {"path": str(layer.path), "trusted": layer.trusted}
            for layer in kernel.config.layers
            if layer.path is not None
        ],
        "ignored": ignored_keys(kernel.config),
        "agent": values_of_agent(kernel.config),
        "lists": {
            name: [{"name": entry, "source": source} for entry, source in entries]
            for name, entries in lists.items()
            if entries is not None
        },
        "plugins": plugins,
    }


def _json(effective: dict[str, Any]) -> dict[str, Any]:
    def values(section: Mapping[str, Value]) -> dict[str, Any]:
        return {key: value.to_json() for key, value in section.items()}

    plugins = {
        name: {"settings": values(parts["settings"]), "options": values(parts["options"])}
        for name, parts in effective["plugins"].items()
    }
    return {"schema": 1, **effective, "agent": values(effective["agent"]), "plugins": plugins}


def _print(title: str, values: Mapping[str, Value]) -> None:
    if not values:
        return
    say("\n", (f"[{label(title)}]", "bold"))
    texts = {key: json.dumps(value.value, ensure_ascii=False) for key, value in values.items()}
    width = min(60, max(len(f"{key} = {text}") for key, text in texts.items()))
    for key, text in texts.items():
        say(label(f"{key} = {text}").ljust(width), "  ", (f"# {label(values[key].source)}", "dim"))


@config.command()
@plugin_option
@verbose_option
def schema(plugin_files: tuple[Path, ...]) -> None:
    """Print the JSON schema of deep.toml, with the options of every active plugin."""
    from deep_core import Kernel

    from ..plugins.files import load_plugin_files
    from .settings import json_schema

    with redirect_prints(), Kernel(plugins=load_plugin_files(plugin_files)) as kernel:
        document = json_schema(kernel)
    say_json(document)


@config.command()
@click.option(
    "--agent",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file to write: .yaml, .yml or .json; - prints YAML.",
)
@plugin_option
@config_option
@verbose_option
def export(file: Path, plugin_files: tuple[Path, ...], config: Path | None) -> None:
    """Write the agent that the configuration describes, for --agent. Secrets are left out; no file is overwritten."""
    from deep_sessions import config_digest

    from deep_core import Kernel
    from deep_core.plugin_api import read_agent_config

    from ..plugins.files import load_plugin_files
    from .exporting import agent_document, as_text

    if str(file) != "-" and file.suffix not in (".yaml", ".yml", ".json"):
        raise Failure(f"{file}: a file for --agent ends with .yaml, .yml or .json", USAGE)
    with redirect_prints(), Kernel(plugins=load_plugin_files(plugin_files), config=config) as kernel:
        document, left_out = agent_document(kernel)
        digest = config_digest(read_agent_config(kernel.config))
    text = as_text(document, as_json=file.suffix == ".json")
    for key in left_out:
        say(f"left out: {label(key)}", err=True)
    if str(file) == "-":
        say_text(text.rstrip(), sys.stdout)
    else:
        try:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except FileExistsError:
            raise Failure(f"{file} exists; name another file, or move it away first") from None
        except OSError as error:
            raise Failure(f"{file}: {error.strerror or error}", FAILED) from error
        say(f"Wrote {label(str(file))}: deep run TASK --agent {label(str(file))}")
    say(f"digest: {digest}", err=True)


TEMPLATE = """\
# Settings of deep agents in this project. `deep config show` lists the values in effect, `deep config schema`
# all keys. Lines marked (trusted) need `deep config trust` here; in the user's own file they always count.

[agent]
# model = "openai:gpt-5.2"                   # (trusted) provider:name; DEEP_MODEL and --model override it
# tool_filter = "~network"                   # a tool expression: the agent has only tools that match
# interrupt_on = { write_file = true }       # tools that ask first; a project can add, not remove
# native_tools = ["web_search"]              # (trusted) the provider's tools that the agent may use
# prompt.system = "Answer in one paragraph." # (trusted) your instructions, before those of the plugins
# runtime_policy.profile = "local"           # (trusted) the backend: where files are and commands run

[plugins]
# disable = ["todo"]                         # (trusted) plugins that are never imported
# require = ["filesystem"]                   # must be active, or nothing starts

[plugins.filesystem]
# require_approval = "write"                 # a tool expression: more of its tools that ask
# tools = "~name:execute"                    # (trusted) its tools that the agent has
# options = { read_lines = 1000 }            # the plugin's own options
"""


@config.command()
@click.option("--user", is_flag=True, help="Write the user's file instead, which is always trusted.")
@verbose_option
def init(user: bool) -> None:
    """Write a commented deep.toml into the current folder. An existing file is never overwritten."""
    from deep_core.plugin_api import user_file

    path = user_file() if user else Path("deep.toml")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise Failure(f"{path} exists; edit it, or move it away first") from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", FAILED) from error
    say(f"Wrote {label(str(path))}: uncomment the lines you want, then: deep config show")


@config.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@verbose_option
def trust(file: Path | None, yes: bool) -> None:
    """Trust a project's file (default: the one in use) with its present content. Asks, on a terminal.

    Read it first: a trusted file may choose the model and its address, disable plugins and turn off approvals; a
    trusted .mcp.json starts programs. When its content changes, or a program below its folder that it starts, it is no
    longer trusted.
    """
    from deep_core.plugin_api import Config, ConfigFile, ConfigLayer, ignored_keys, project_files, restrict

    from ..plugins.untrusted import plugin_options

    found = (_servers(file) or ConfigFile.read(file)) if file else next(project_files(), None)
    if found is None:
        raise Failure(
            "there is no deep.toml and no pyproject.toml with [tool.deep] here or above: deep config init", USAGE
        )
    effect = "the plugin that reads it uses it"
    if found.path.suffix != ".json":  # a plugin's, such as `.mcp.json`: only that plugin knows its keys
        layer, dropped = restrict(ConfigLayer(str(found.path), found.tables(), trusted=False))
        dropped += [key.partition(": ")[2] for key in ignored_keys(Config((layer,)))]
        dropped += plugin_options(layer)  # with trust each counts as it is
        effect = f"these count: {', '.join(dropped)}" if dropped else "nothing changes, no key of it needs trust"
    say(f"Once you trust it, {label(effect)}")
    taken = dict.fromkeys(re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)", found.content.decode("utf-8", "replace")))
    if taken:
        say(f"It takes from your environment, which may hold keys: {label(', '.join(taken))}")
    if not yes and sys.stdin.isatty():
        confirm(f"Trust {found.path.resolve()}?")
    try:
        found.trust()
    except OSError as error:
        raise Failure(f"the trust could not be recorded: {error}", FAILED) from error
    say(f"Trusted {label(str(found.path.resolve()))} until it changes")


def _servers(file: Path) -> ConfigFile | None:
    """Read a file of servers, whose trust covers the programs that it starts; None if it is another file."""
    if file.suffix != ".json":
        return None
    try:
        from deep_mcp import read_mcp_file
    except ImportError:  # then nothing reads it
        return None
    return read_mcp_file(file)
