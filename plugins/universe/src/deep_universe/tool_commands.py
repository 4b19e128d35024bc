"""`deep tools`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from deep_cli import (
    CliOptions,
    Failure,
    TerminalReporter,
    approve_option,
    backend_option,
    config_option,
    one_line,
    plugin_option,
    say,
    say_json,
    say_text,
)

from deep_core import ToolExpression
from deep_core.plugin_api import suggest, validate_options

from .assembled import assembled
from .errors import DriverNotFoundError, NoDriverError
from .expressions import Diagnosis, diagnose
from .universe import Universe

if TYPE_CHECKING:
    from .calls import ToolResult
    from .terminal_approvals import Approver
    from .tools import UniverseTool

__all__ = ["tools"]

T = TypeVar("T")
FAILED, USAGE, REFUSED = 1, 2, 3
"""The exit codes, as those of `deep run`."""
EVERY = '~name:""'
output_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="Format of stdout. Default: text."
)


@click.group("tools")
def tools() -> None:
    """List, render and explain the agent's tools, and execute a model's answer."""


@tools.command("list")
@click.argument("expression", metavar="[EXPR]", default=EVERY)
@plugin_option
@output_option
@config_option
def list_tools(expression: str, plugin_files: tuple[Path, ...], output: str, config: Path | None) -> None:
    """List the tools of the agent that EXPR selects: 'read & ~network', 'plugin:filesystem', '^write_'.

    It needs no model and no key.
    """
    chosen = _expression(expression)

    async def look(universe: Universe) -> list[UniverseTool]:
        return [*universe[chosen]]

    found = _with_universe(look, plugin_files, config)
    if output == "json":
        say_json({"schema": 1, "expression": str(chosen), "tools": [_facts(tool) for tool in found]})
        return
    name_width = max((len(tool.name) for tool in found), default=0)
    plugin_width = max((len(tool.facts.plugin) for tool in found), default=0)
    for tool in found:
        tags = one_line(", ".join(tool.facts.tags), None)
        say(f"{tool.name:{name_width}}  {tool.facts.plugin:{plugin_width}}  {tags}")
    if not found:
        say(f"no tool matches {chosen}; deep tools list shows all", err=True)


@tools.command("render")
@click.argument("expression", metavar="[EXPR]", default=EVERY)
@click.option("--for", "target", metavar="MODEL", required=True, help="A model, as gpt-5.2, or a driver, as anthropic.")
@plugin_option
@output_option
@config_option
def render(expression: str, target: str, plugin_files: tuple[Path, ...], output: str, config: Path | None) -> None:
    """Print the tools as they are sent to MODEL: JSON for its API, or the text of a prompt.

    EXPR selects tools; without it, all. It needs no model and no key.
    """
    chosen = _expression(expression)

    async def look(universe: Universe) -> dict[str, Any]:
        selected = universe[chosen]
        names = [tool.name for tool in selected]
        driver = selected.driver_for(target)
        rendered = driver.render(selected.definitions)
        return {"schema": 1, "for": target, "driver": driver.name, "tools": names, "rendered": rendered}

    try:
        found = _with_universe(look, plugin_files, config)
    except NoDriverError as error:
        raise Failure(f"--for {target}: {error}", USAGE) from error
    if output == "json":
        say_json(found)
    elif isinstance(found["rendered"], str):
        say_text(found["rendered"], sys.stdout)
    else:
        say_json(found["rendered"])


@tools.command("why")
@click.argument("name")
@click.argument("expression", metavar="EXPR")
@plugin_option
@output_option
@config_option
@click.pass_context
def why(
    ctx: click.Context,
    name: str,
    expression: str,
    plugin_files: tuple[Path, ...],
    output: str,
    config: Path | None,
) -> None:
    """Explain why EXPR selects the tool NAME or not, part by part.

    Exit code: 0 it does, 1 it does not.
    """
    chosen = _expression(expression)

    async def look(universe: Universe) -> Diagnosis:
        tool = universe.get(name)
        if tool is None:
            hint = suggest(name, [tool.name for tool in universe.tools])
            raise Failure(f"the agent has no tool {name!r}.{hint} `deep tools list` lists them", USAGE)
        return diagnose(chosen, tool.facts)

    found = _with_universe(look, plugin_files, config)
    if output == "json":
        say_json({"schema": 1, "tool": name, "matched": found.matched, "trace": _trace(found)})
    else:
        say(str(found))
    ctx.exit(0 if found.matched else FAILED)


@tools.command("dispatch")
@click.argument("file", metavar="FILE", type=click.File("r", encoding="utf-8"))
@click.option("--driver", metavar="NAME", help="The format of the answer, as openai. Default: recognize it.")
@click.option("--tools", "allowed", metavar="EXPR", help="The tools that may run. Default: all.")
@click.option("-m", "--model", metavar="MODEL", help="provider:name, for tools that ask a model, such as task.")
@backend_option
@approve_option
@plugin_option
@output_option
@config_option
@click.pass_context
def dispatch(
    ctx: click.Context,
    file: Any,
    driver: str | None,
    allowed: str | None,
    model: str | None,
    backend: str | None,
    approve: Literal["ask", "allow", "deny"] | None,
    plugin_files: tuple[Path, ...],
    output: str,
    config: Path | None,
) -> None:
    """Execute the calls in a model's answer, under the agent's policy.

    FILE has the provider's raw response as JSON, or the text of a model without native tool calls; - is stdin. Prints
    one result for each call, in order.

    Exit code: 0 done, 1 a call failed, 2 usage or configuration, 3 a call was denied or unanswered.
    """
    from .terminal_approvals import Approver

    response = _response(file.read())
    tool_filter = None if allowed is None else _expression(allowed, "--tools: ")
    screen = TerminalReporter()

    with redirect_stdout(sys.stderr), screen.open(), assembled(plugin_files, config, model, backend) as (kernel, agent):
        options, _ = validate_options("cli", CliOptions, kernel.config.plugin("cli"))
        approver = Approver(approve or options.approve, screen)

        async def run() -> list[ToolResult]:
            async with Universe.from_agent(agent, approve=approver) as universe:
                if driver is not None:
                    _check_driver(universe, driver)
                return await universe.dispatch(response, driver=driver, tool_filter=tool_filter)

        results = asyncio.run(run())
    code = _exit_code(results, approver)
    if output == "json":
        status = {0: "done", FAILED: "failed", REFUSED: "refused"}[code]
        approvals = [asdict(decision) for decision in approver.decisions]
        told = [_result(result) for result in results]
        say_json({"schema": 1, "status": status, "exit_code": code, "results": told, "approvals": approvals})
    for result in () if output == "json" else results:
        say(one_line(f"{result.meta.get('tool') or 'the answer'}: {result.meta.get('error_code') or 'done'}", None))
        say_text(result.error if result.error is not None else _text(result.result), sys.stdout)
    if not results:
        say("the answer has no calls", err=True)
    ctx.exit(code)


def _with_universe(look: Callable[[Universe], Awaitable[T]], plugin_files: Sequence[Path], config: Path | None) -> T:
    with redirect_stdout(sys.stderr), assembled(plugin_files, config) as (_, agent):

        async def run() -> T:
            async with Universe.from_agent(agent) as universe:
                return await look(universe)

        return asyncio.run(run())


def _expression(text: str, where: str = "") -> ToolExpression:
    try:
        return ToolExpression.parse(text)
    except ValueError as error:
        raise Failure(f"{where}{error}", USAGE) from error


def _check_driver(universe: Universe, name: str) -> None:
    try:
        universe.driver(name)
    except DriverNotFoundError as error:
        raise Failure(f"--driver {name}: {error}", USAGE) from error


def _response(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _facts(tool: UniverseTool) -> dict[str, Any]:
    facts, definition = tool.facts, tool.definition
    return {
        "name": tool.name,
        "plugin": facts.plugin,
        "tags": [*facts.tags],
        "deferred": definition.defer_loading,
        "description": definition.description,
    }


def _trace(part: Diagnosis) -> dict[str, Any]:
    return {
        "node": part.node,
        "expression": str(part.expression),
        "matched": part.matched,
        "detail": part.detail,
        "children": [_trace(child) for child in part.children],
    }


def _result(result: ToolResult) -> dict[str, Any]:
    return {
        "id": result.id,
        "tool": result.meta.get("tool"),
        "result": _plain(result.result),
        "error": result.error,
        "error_code": result.meta.get("error_code"),
    }


def _plain(value: object) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=repr, serialize_unknown=True)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def _exit_code(results: Sequence[ToolResult], approver: Approver) -> int:
    if any(not decision.approved for decision in approver.decisions):
        return REFUSED
    return 0 if all(result.is_success for result in results) else FAILED
