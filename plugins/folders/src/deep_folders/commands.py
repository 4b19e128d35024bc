"""`deep folders list`, `show`, `add`, `update`, `remove`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from deep_cli import Failure, config_option, one_line, say, say_json

from deep_core import Kernel
from deep_core.plugin_api import suggest, user_file, visible

from .environment import ENVIRONMENT, SECRET, is_named
from .fetching import fetch, is_url, plugins_listed
from .folder import ABOUT_CALLS, NAME, Folder, ServerEntry
from .found import find_folders, store_root
from .hook_variables import fetched_programs, packages_unknown, programs_missing, variables_read
from .options import FoldersOptions
from .reading import read_folder
from .snapshot import BadFolder, digest_of, files_of
from .store import Added, Store, origin_name, without_login

__all__ = ["add_folder", "folders", "yes_option"]

FAILED, USAGE = 1, 2
DIFF_LINES = 400
"""Most lines of an update's diff; the rest is counted."""
output_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="Format of stdout. Default: text."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.group("folders")
def folders() -> None:
    """List, add, update and remove folders of skills, MCP servers, agents, commands and hooks."""


@folders.command("list")
@output_option
@config_option
def list_folders(output: str, config: Path | None) -> None:
    """List every folder: added, named in the configuration, or of an installed distribution. Starts nothing."""
    with Kernel(config=config) as kernel:
        found = _all(kernel)
    if output == "json":
        say_json({"schema": 1, "folders": [_json(folder) for folder in found]})
        return
    for folder in found:
        say(f"{_line(folder.name)}  {_line(folder.version) or '-'}  {(folder.problem and 'not used') or folder.counts}")
        say(f"  from {_line(folder.source)}")
        for note in filter(None, (folder.problem, folder.blocked if folder.has_programs else "")):
            say(f"  {_line(note)}")
        if folder.notes:
            say(f"  {len(folder.notes)} without effect: deep folders show {_line(folder.name)}")
    if not found:
        say("no folder is in use; deep folders add PATH or URL", err=True)


@folders.command("show")
@click.argument("name")
@output_option
@config_option
def show(name: str, output: str, config: Path | None) -> None:
    """Show everything in a folder, and what of it has no effect."""
    with Kernel(config=config) as kernel:
        found = {folder.name: folder for folder in _all(kernel)}
    if name not in found:
        raise Failure(f"no folder {name!r}.{suggest(name, found)} deep folders list shows them", USAGE)
    if output == "json":
        say_json({"schema": 1, **_json(found[name])})
    else:
        _say_folder(found[name])


@folders.command("add")
@click.argument("origin", metavar="PATH|URL")
@click.option("--path", default="", help="The folder inside it, such as plugins/review.")
@click.option("--ref", default="", help="The branch or tag of a repository.")
@click.option("--name", default="", help="Its name here. Default: its own.")
@click.option("--no-programs", is_flag=True, help="Never start its hooks and MCP servers.")
@yes_option
def add(origin: str, path: str, ref: str, name: str, no_programs: bool, yes: bool) -> None:
    """Add a folder: an Agent Plugin, or a plugin of Claude Code.

    It is copied and pinned by its content. What changes at PATH or URL counts only after `deep folders update`.
    """
    add_folder(origin, path, ref, name, yes, programs=not no_programs)


def add_folder(
    origin: str, path: str, ref: str, name: str, yes: bool, *, programs: bool, skills_only: bool = False
) -> None:
    """Show a folder, ask, and add it; with `skills_only`, its skills.

    Raises:
        Failure: it cannot be added; the message says why.
    """
    if not is_url(origin):
        origin = str(Path(origin).expanduser().absolute())
    try:
        with Kernel() as kernel, fetch(origin, path, ref) as fetched:
            store = Store(store_root(kernel))
            folder = _read(fetched.root, store, path, origin)
            if skills_only:
                folder = folder.only_skills
                if not folder.skills:
                    raise BadFolder(f"{without_login(origin)} has no skill: no SKILL.md in it, in skills or below")
            name = name or folder.name
            if not NAME.fullmatch(name):
                raise Failure(f"the name {name!r} is not 1 to 64 of a-z, 0-9, - and .; give one with --name", USAGE)
            handed = kernel.context("folders").options(FoldersOptions).hook_env
            folder = replace(folder, name=name, hook_env=tuple(handed.get(name, ())))
            known = {other.name: other for other in _all(kernel)}
            if name in known:
                way = f"deep folders update {name}" if store.get(name) else "--name"
                raise Failure(f"there is a folder {name!r}, from {known[name].source}; {way}", USAGE)
            _say_folder(folder)
            if unknown := packages_unknown(folder):
                say(f"  npm has no such package, so hooks that run it do nothing: {_line(', '.join(unknown))}")
            _confirm(f"Add {name}?", yes, programs=folder.has_programs and programs)
            digest = digest_of(fetched.root)
            store.add(Added(name, origin, path, ref, fetched.commit, digest, programs, skills_only), fetched.root)
    except (OSError, ValueError) as error:
        raise Failure(visible(str(error)), FAILED) from error
    say(f"Added {name}. New agents use it.")


@folders.command("update")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@yes_option
def update(names: tuple[str, ...], yes: bool) -> None:
    """Show what changed where added folders come from, all or those named, and take it if you agree."""
    with Kernel() as kernel:
        store = Store(store_root(kernel))
        handed = kernel.context("folders").options(FoldersOptions).hook_env
    known = {added.name: added for added in store.all()}
    for name in names:
        if name not in known:
            raise Failure(f"no added folder {name!r}.{suggest(name, known)} deep folders list shows them", USAGE)
    failed = False
    for name in dict.fromkeys(names or known):
        try:
            _update(store, known[name], handed.get(name, ()), yes)
        except (OSError, ValueError) as error:
            say(f"{name}: {visible(str(error))}", err=True)
            failed = True
    if failed:
        raise click.exceptions.Exit(FAILED)


def _update(store: Store, added: Added, hook_env: Sequence[str], yes: bool) -> None:
    with fetch(added.origin, added.path, added.ref) as fetched:
        digest, whole = digest_of(fetched.root), store.holds(added)
        if digest == added.digest:  # what the user agreed to
            if not whole:
                store.add(added, fetched.root)
            say(f"{added.name}: unchanged" if whole else f"{added.name}: unchanged; its copy was made again")
            return
        folder = _read(fetched.root, store, added.path, added.origin)
        folder = replace(folder, name=added.name, hook_env=tuple(hook_env))
        folder = folder.only_skills if added.skills_only else folder
        lines = list(_diff(store.content(added) if whole else None, fetched.root))
        for line in lines[:DIFF_LINES]:
            say(visible(line))
        if len(lines) > DIFF_LINES:
            say(f"… {len(lines) - DIFF_LINES} more lines")
        for server in folder.servers if added.programs else ():
            say(f"  MCP server {_line(server.name)}: {_line(server.target)}")
            _say_taken(server)
        if added.programs:
            _say_programs(folder)
            _say_variables(folder)
        _confirm(f"Update {added.name}?", yes, programs=folder.has_programs and added.programs)
        store.add(replace(added, commit=fetched.commit, digest=digest), fetched.root)
        say(f"Updated {added.name}. New agents use it.")


@folders.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a folder that was added, and what its programs kept."""
    with Kernel() as kernel:
        store = Store(store_root(kernel))
        installed = {folder.name: folder for folder in _all(kernel)}
    if not NAME.fullmatch(name) or not store.remove(name):
        if name in installed and installed[name].format == "agent-plugin":
            raise Failure(f"{name} comes with {installed[name].source}; pip uninstall {name}", USAGE)
        known = [added.name for added in store.all()]
        raise Failure(f"no added folder {name!r}.{suggest(name, known)} deep folders list shows them", USAGE)
    say(f"Removed {name}.")


def _all(kernel: Kernel) -> tuple[Folder, ...]:
    context = kernel.context("folders")
    return find_folders(context, context.options(FoldersOptions))


def _read(root: Path, store: Store, path: str, origin: str) -> Folder:
    """Read a fetched folder; of a marketplace, say which folders there are."""
    try:
        return read_folder(root.resolve(), store.data("new"), origin_name(origin, path))
    except ValueError as error:
        if listed := plugins_listed(root):
            raise BadFolder(f"{without_login(origin)} holds several plugins; {listed}") from error
        raise


def _confirm(question: str, yes: bool, *, programs: bool) -> None:
    if yes:
        return
    if programs:
        say("Its hooks run as you, without asking, at every call that they are for. Its MCP servers run as you, too.")
    if not _terminal():
        raise Failure(f"{question} There is no terminal to ask on; nothing was changed; --yes", USAGE)
    click.confirm(question, abort=True)


def _terminal() -> bool:
    return sys.stdin.isatty()


def _diff(old: Path | None, new: Path) -> Iterator[str]:
    """Yield the changes of every file, as a unified diff; of a file that is no text, that it differs."""
    before, after = dict(files_of(old)) if old else {}, dict(files_of(new))
    for name in sorted(before.keys() | after.keys()):
        texts = [_content(files.get(name)) for files in (before, after)]
        if texts[0] == texts[1]:
            continue
        if None in texts:
            yield f"binary file {name} differs"
            continue
        a, b = ((text or "").splitlines() for text in texts)
        yield from difflib.unified_diff(a, b, f"a/{name}", f"b/{name}", lineterm="")


def _content(path: Path | None) -> str | None:
    if path is None:
        return ""
    try:
        return f"{'a program' if path.stat().st_mode & 0o100 else 'a file'}\n{path.read_text(encoding='utf-8')}"
    except ValueError:
        return None


def _line(text: str) -> str:
    return one_line(text, None)


def _say_folder(folder: Folder) -> None:
    say(f"{_line(folder.name)} {_line(folder.version)}".rstrip() + f" ({folder.format}): {folder.counts}")
    if folder.description:
        say(f"  {one_line(folder.description, 200)}")
    if folder.source:
        say(f"  from {_line(folder.source)}")
    for why in filter(None, (folder.problem, folder.blocked if folder.has_programs else "")):
        say(f"  {_line(why)}")
    for skill in folder.skills:
        say(f"  skill {_line(skill.name)}")
    for agent in folder.agents:
        say(f"  subagent type {_line(agent.name)}: {one_line(agent.description, 100)}")
    if folder.agents:
        chars = sum(len(f"- {agent.name}: {agent.description}\n") for agent in folder.agents)
        say(f"  its subagent types cost about {chars // 4:,} tokens of each request")
    for command in folder.commands:
        say(f"  command /{_line(folder.name)}:{_line(command.name)}  {one_line(command.description, 100)}")
    for server in folder.servers:
        say(f"  MCP server {_line(server.name)}: {_line(server.target)}")
        _say_taken(server)
    for hook in folder.hooks:
        command = hook.command if hook.args is None else shlex.join([hook.command, *hook.args])
        what = f"asks the model: {one_line(hook.prompt, 200)}" if hook.prompt else _line(command)
        of = f" of {_line(hook.matcher) or 'all tools'}" if hook.event in ABOUT_CALLS or hook.matcher else ""
        narrowed = f", if {_line(hook.only)}" if hook.only else ""
        beside = ", beside the run" if hook.background else ""
        while_used = f", while skill {_line(hook.skill.name)} is in use" if hook.skill else ""
        once = ", once" if hook.once else ""
        say(f"  hook {hook.event}{of}{narrowed}{beside}{while_used}{once}: {what}")
    if any(hook.event == "SessionStart" for hook in folder.hooks):
        say("    hooks of SessionStart can set variables of commands")
    _say_programs(folder)
    _say_variables(folder)
    for style in folder.styles:
        imposed = ", which it imposes" if style.always else ""
        say(f"  output style {_line(folder.name)}:{_line(style.name)}{imposed}  {one_line(style.description, 100)}")
    for note in folder.notes:
        say(f"  {note.kind}: {_line(note.what)}: {_line(note.why)}")


def _say_taken(server: ServerEntry) -> None:
    if server.taken:
        say(f"    gets of your environment, which may hold keys: {_line(', '.join(server.taken))}")


def _say_variables(folder: Folder) -> None:
    """Say what hooks get of the environment, what they read and do not get, and what to type."""
    if not folder.hooks:
        return
    say(f"    hooks get of your environment: {_line(', '.join([*ENVIRONMENT, *folder.hook_env]))}")
    if missing := _missing(folder):
        plain = [name for name in missing if not SECRET.search(name)]
        example = [name for name in plain if name in os.environ] or plain[:1] or missing[:1]
        say(f"    they read more, which they do not get: {', '.join(missing)}")
        say(f"    to hand over those that you choose, in {user_file()}:")
        say("      [plugins.folders.options.hook_env]")
        say(f"      {json.dumps(folder.name)} = {json.dumps(example)}")


def _say_programs(folder: Folder) -> None:
    """Say which programs hooks start that are not here, or that nothing pins."""
    if missing := programs_missing(folder):
        say(f"    they start programs that are not here: {', '.join(missing)}")
    if fetched := fetched_programs(folder):
        say(f"    they run what a registry has then, which nothing pins: {_line(', '.join(fetched))}")


def _missing(folder: Folder) -> list[str]:
    return [name for name in variables_read(folder) if not is_named(name, folder.hook_env)]


def _json(folder: Folder) -> dict[str, Any]:
    return {
        "name": folder.name,
        "format": folder.format,
        "version": folder.version,
        "description": folder.description,
        "source": folder.source,
        "path": str(folder.root),
        "problem": folder.problem,
        "blocked": folder.blocked,
        "skills": [skill.name for skill in folder.skills],
        "servers": [server.name for server in folder.servers],
        "agents": [agent.name for agent in folder.agents],
        "commands": [f"{folder.name}:{command.name}" for command in folder.commands],
        "hooks": [f"{hook.event} {hook.matcher}".strip() for hook in folder.hooks],
        "variables": [*ENVIRONMENT, *folder.hook_env] if folder.hooks else [],
        "not_handed": _missing(folder),
        "styles": [f"{folder.name}:{style.name}" for style in folder.styles],
        "notes": [asdict(note) for note in folder.notes],
    }
