"""`deep plugins`: list the installed plugins without importing them; install, uninstall and bisect them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..failure import FAILED, USAGE, Failure
from ..flags import FILE, json_option, verbose_option
from ..terminal.output import confirm, say, say_json
from ..terminal.screen import label, one_line, redact
from . import listing

if TYPE_CHECKING:
    from .installing.install import ResultLine

__all__ = ["plugins"]


@click.group()
@verbose_option
def plugins() -> None:
    """Show and change the installed plugins."""


@plugins.command("list")
@json_option
@verbose_option
@click.pass_context
def list_plugins(ctx: click.Context, as_json: bool) -> None:
    """List every plugin with its status, without importing any.

    `active` plugins would load, or loaded the last time; every other status has its reason and what to type.
    """
    import warnings

    from deep_core import PluginWarning
    from deep_core.plugin_api import find_plugins

    found = find_plugins()
    for message in found.warnings:
        warnings.warn(message, PluginWarning, stacklevel=1)
    listing.show(found.records, json=as_json)


@plugins.command("search")
@click.argument("words", metavar="WORD…", nargs=-1, required=True)
@click.option("--offline", is_flag=True, help="Do not ask the index.")
@click.option("--index", metavar="URL", help="The index to ask. Default: PIP_INDEX_URL, UV_DEFAULT_INDEX, else PyPI.")
@json_option
@verbose_option
@click.pass_context
def search(ctx: click.Context, words: tuple[str, ...], offline: bool, index: str | None, as_json: bool) -> None:
    """Search plugins in the list that comes with deep, and on the index.

    The index cannot be searched by keyword: it is asked for distributions called WORD and deep-WORD, and those with
    the keyword deep-plugin are shown. Without a network the list is all. Exit code 0: found; 1: not found.
    """
    from http.client import HTTPException

    from .search import index_url, search_index, search_known

    found, problem = search_known(words), ""
    if not offline:
        try:
            others = search_index(words, index or index_url())
        except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
            problem = f"The index was not searched: {one_line(redact(str(error)), 200)}"
        else:
            known = {each.distribution for each in found}
            found += [each for each in others if each.distribution not in known]
    if as_json:
        say_json({"schema": 1, "plugins": [vars(each) for each in found], "problem": problem})
    for each in () if as_json else found:
        more = each.version or (f"{each.tokens:,} tokens a request" if each.tokens is not None else "")
        say(f"{label(each.distribution)}  {label(more)}".rstrip())
        say(f"  {one_line(each.about, 200)}" + (f"  {one_line(each.url, 200)}" if each.url else ""))
    if problem and not as_json:
        say(problem, err=True)
    if not found:
        if not as_json:
            say(f"No plugin found for {one_line(' '.join(words), 80)}", err=True)
        ctx.exit(FAILED)
    if not as_json:
        say(f"Install one: deep plugins install {label(found[0].distribution)}")


@plugins.command("install")
@click.argument("names", metavar="NAME|PATH|URL…", nargs=-1)
@click.option("-e", "--editable", "editables", metavar="PATH", multiple=True, help="Install a folder as a link to it.")
@click.option("-U", "--upgrade", is_flag=True, help="Upgrade installed distributions.")
@verbose_option
@click.pass_context
def install(ctx: click.Context, names: tuple[str, ...], editables: tuple[str, ...], upgrade: bool) -> None:
    """Install plugins into the environment that runs `deep`, with the tool that manages it.

    That is pip, uv, `uv tool` or pipx. deep-agent-core and Pydantic AI keep their versions. Installations are recorded
    for `deep plugins restore`. Each plugin is then loaded once, in its own process. Exit code 0: all of them are
    active.
    """
    from .installing.install import install as install_them

    if not names and not editables:
        raise Failure("nothing to install: deep plugins install NAME, PATH or URL", USAGE)
    ctx.exit(_tell(install_them(names, editables, upgrade=upgrade)))


@plugins.command("uninstall")
@click.argument("name", metavar="PLUGIN")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@verbose_option
@click.pass_context
def uninstall(ctx: click.Context, name: str, yes: bool) -> None:
    """Uninstall a plugin's distribution, without importing the plugin.

    PLUGIN is a plugin's or a distribution's name.
    """
    from deep_core.plugin_api import scan

    from .installing.install import distribution_of, forget_missing
    from .installing.install import uninstall as uninstall_it

    # Do not load the configuration: an error in it, maybe by this plugin, must not prevent this.
    records = [candidate.record for group in ("deep", "deep.commands") for candidate in scan(group=group)]
    try:
        distribution = distribution_of(name, records)
    except Failure:
        if not forget_missing(name):
            raise
        say(f"{name} was not installed; its record is removed.")
        return
    others = sorted({record.name for record in records if record.distribution == distribution})
    if not yes:
        if not sys.stdin.isatty():
            raise Failure(f"no terminal to ask on; add --yes to uninstall {distribution}", USAGE)
        confirm(f"Uninstall {distribution} (plugins: {', '.join(others)})?")
    ctx.exit(_tell(uninstall_it(distribution)))


@plugins.command("restore")
@click.option(
    "--from",
    "source",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of another environment whose record to restore.",
)
@verbose_option
@click.pass_context
def restore(ctx: click.Context, source: Path | None) -> None:
    """Install missing plugins that `deep plugins install` installed here.

    Use it after a new Python, or a tool's upgrade. A failure does not stop the others. Exit code 1 if any failed.
    """
    from .installing.install import restore as restore_them

    ctx.exit(_tell(restore_them(source)))


@plugins.command("bisect", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", metavar="-- COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--keep", metavar="PLUGIN", multiple=True, help="A plugin that COMMAND needs; may be given several times."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="A run that takes longer fails. Default: no limit.",
)
@click.option("--thorough", is_flag=True, help="Also look for partners and further culprits, in more runs.")
@json_option
@verbose_option
@click.pass_context
def bisect(
    ctx: click.Context,
    command: tuple[str, ...],
    keep: tuple[str, ...],
    timeout: float | None,
    thorough: bool,
    as_json: bool,
) -> None:
    """Find the plugin that breaks a command, by running it with fewer plugins.

    COMMAND fails if its exit code is not 0. At most 5 runs for up to 30 plugins. Exit code 0: found; 1: not found,
    since the command fails without plugins too, or succeeds with all of them.
    """
    from .bisect_command import bisect as find

    ctx.exit(find(command, keep=keep, seconds=timeout, thorough=thorough, as_json=as_json))


def _checking(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the commands that try a distribution."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    options = (
        click.option("--find-links", metavar="DIR", multiple=True, type=folder, help="A folder of wheels to use, too."),
        click.option("--rows", metavar="DIR", type=click.Path(path_type=Path), help="Write what was found there."),
        click.option("--config", type=FILE, help="A configuration file with the options that its plugins get."),
        click.option("--timeout", metavar="SECONDS", default=600.0, help="How long each step may take. Default: 600."),
        verbose_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@plugins.command("check")
@click.argument("targets", metavar="NAME|FOLDER|WHEEL…", nargs=-1, required=True)
@_checking
@click.pass_context
def check(
    ctx: click.Context,
    targets: tuple[str, ...],
    find_links: tuple[Path, ...],
    rows: Path | None,
    config: Path | None,
    timeout: float,
) -> None:
    """Try distributions, each in a fresh environment, and say what is wrong with them.

    Each is installed with the deep and Pydantic AI that run here. Its plugins are loaded; the conformance suite runs,
    and a folder's own tests. Code of the distribution runs as you. Exit code 0: all passed.
    """
    from .checking.command import check_all

    ctx.exit(check_all(targets, (), find_links, rows, timeout, config))


@plugins.command("test-against")
@click.argument("versions", metavar="deep==VERSION|pydantic-ai==VERSION…", nargs=-1, required=True)
@click.option(
    "--folder",
    metavar="FOLDER",
    default=".",
    type=click.Path(exists=True, file_okay=False),
    help="The plugin's project. Default: the current folder.",
)
@_checking
@click.pass_context
def test_against(
    ctx: click.Context,
    versions: tuple[str, ...],
    folder: str,
    find_links: tuple[Path, ...],
    rows: Path | None,
    config: Path | None,
    timeout: float,
) -> None:
    """Try a project as `check` does, with other versions of deep and Pydantic AI. For its author's CI."""
    from .checking.command import check_all

    ctx.exit(check_all([folder], versions, find_links, rows, timeout, config))


@plugins.command("site")
@click.argument("rows", metavar="ROWS", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", metavar="DIR", default="site", type=click.Path(path_type=Path), help="Default: site.")
@click.option("--title", metavar="TEXT", default="Plugins of deep", help="The title of its first page.")
@verbose_option
def site(rows: Path, out: Path, title: str) -> None:
    """Make a static site of the rows that `check --rows` wrote."""
    from .checking.command import build_site

    build_site(rows, out, title)


def _tell(lines: Iterable[ResultLine]) -> int:
    """Print lines as they come; return the exit code."""
    code = 0
    for line in lines:
        say(line.text)
        code = code if line.ok else FAILED
    return code
