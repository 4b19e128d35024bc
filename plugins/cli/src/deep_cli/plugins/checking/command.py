"""`deep plugins check`, `test-against` and `site`. Imported when one of them was typed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...failure import FAILED, Failure
from ...terminal.output import say
from ...terminal.screen import label, one_line
from .check import Row, Tests, check
from .site import awaited, read_rows, write_site

__all__ = ["build_site", "check_all"]


def check_all(
    targets: Sequence[str],
    given: Sequence[str],
    find_links: Sequence[Path],
    rows: Path | None,
    seconds: float,
    config: Path | None,
) -> int:
    """Check distributions one after the other, say what came out, and write their rows; return the exit code.

    Raises:
        Failure: no environment could be made, a target is none, or the configuration cannot be read.
    """
    code = 0
    try:
        options = "" if config is None else config.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise Failure(f"{config}: {one_line(str(error), 200)}") from error
    for target in targets:
        row = check(target, given, [str(folder.resolve()) for folder in find_links], seconds, options)
        _say(row)
        code = code if row.well else FAILED
        if rows is not None:
            rows.mkdir(parents=True, exist_ok=True)
            tried = "".join(f"@{re.sub(r'[^A-Za-z0-9.-]+', '-', text)}" for text in given)
            path = rows / f"{row.distribution}{tried}.json"
            text = json.dumps({"schema": 1, **asdict(row), "well": row.well}, indent=2)
            path.write_text(f"{text}\n", encoding="utf-8")
            say(f"  row {path}")
    return code


def _say(row: Row) -> None:
    with_ = ", ".join(f"{name} {version}" for name, version in row.versions.items())
    say(f"{label(row.distribution)} {label(row.version)}".rstrip() + f": {'passed' if row.well else 'failed'}")
    if row.problem:
        say(f"  {one_line(row.problem, 500)}")
    for plugin in row.plugins:
        about = plugin["reason"] or ", ".join(plugin["hooks"])
        why = f": {one_line(about, 300)}" if about else ""
        say(f"  plugin {label(plugin['name'])} is {plugin['status']}{why}")
        if plugin["tokens"] is not None:
            tools = ", ".join(f"{tool['name']} ({' '.join(tool['tags'])})" for tool in plugin["tools"])
            say(f"    {plugin['tokens']:,} tokens a request; tools: {one_line(tools or _no_tools(plugin), 300)}")
        for incident in plugin.get("incidents", ()):
            say(f"    {one_line(incident, 300)}")
    if row.plugins:
        _say_tests("conformance", row.conformance)
        if row.suite is not None:
            _say_tests("its own tests", row.suite)
        say(f"  with {with_}")


def _no_tools(plugin: dict[str, Any]) -> str:
    """Why a plugin that brings tools has none: it waits for what its options name, such as a service."""
    options = ", ".join(awaited(plugin))
    return f"none as it is configured; its options, for --config FILE: {options}" if options else "none"


def _say_tests(what: str, tests: Tests) -> None:
    say(f"  {what}: {tests.passed} passed, {tests.failed} failed, {tests.skipped} skipped")
    for problem in tests.problems:
        say(f"    {one_line(problem, 500)}")


def build_site(rows: Path, out: Path, title: str) -> None:
    """Write the site of the rows in a folder.

    Raises:
        Failure: there are none, one is broken, or the site cannot be written.
    """
    try:
        found = read_rows(rows)
        if not found:
            raise Failure(f"{rows} has no rows: deep plugins check --rows {rows} NAME writes them")
        write_site(found, out, title)
    except (OSError, ValueError) as error:
        raise Failure(one_line(str(error), 500), FAILED) from error
    say(f"{len(found)} distributions: {out / 'index.html'}")
