"""The command `deep`: find and import the command that was typed, and no other."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

from deep_core import ConfigError
from deep_core import __version__ as core_version
from deep_core.plugin_api import visible

from . import __version__
from .built_in import BUILT_IN, LIGHT
from .failure import INTERRUPTED, Failure, show_traceback
from .flags import model_of, verbose, verbose_option
from .plugins.advice import rewrite_advice
from .plugins.warnings import show_warnings
from .terminal.screen import label, open_streams

if TYPE_CHECKING:
    from .plugins.contributed import PluginCommand

__all__ = ["deep", "main"]

FOUND = "deep_cli.plugins.contributed"


class Deep(click.Group):
    """The built-in commands and those of plugins; import only the one that was typed."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Parse and run, with warnings about plugins shown from the first line of the help."""
        with show_warnings():
            return super().main(*args, **more)

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Parse the arguments."""
        try:
            with _visible_errors():
                return super().make_context(*args, **more)
        except KeyboardInterrupt:
            raise Failure("interrupted", INTERRUPTED) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the built-in commands, then the plugins' by name, from metadata."""
        return [*BUILT_IN, *self._of_plugins(ctx)]

    def _of_plugins(self, ctx: click.Context) -> dict[str, PluginCommand]:
        # A plugin cannot take a built-in name: `deep config trust` must be ours.
        if FOUND not in ctx.meta:
            from .plugins.contributed import plugin_commands

            ctx.meta[FOUND] = {name: found for name, found in plugin_commands().items() if name not in BUILT_IN}
        return ctx.meta[FOUND]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command that was typed.

        Raises:
            Failure: it is a plugin's, and cannot be used.
        """
        if cmd_name not in LIGHT:
            from deep_core.plugin_api import scan, shield_pydantic

            shield_pydantic(scan())  # commands load pydantic before the kernel could shield it
        if cmd_name in BUILT_IN:
            module, _, name = BUILT_IN[cmd_name][0].partition(":")
            return cast("click.Command", getattr(import_module(f".{module}", __package__), name))
        command = self._of_plugins(ctx).get(cmd_name)
        return None if command is None else command.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion for a misspelled one."""
        from deep_core.plugin_api import suggest

        name = args[0]
        if not name.startswith("-") and name not in BUILT_IN and name not in self._of_plugins(ctx):
            names = self.list_commands(ctx)
            ctx.fail(f"no command {name!r}.{suggest(name, names)} `deep --help` lists them.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in BUILT_IN.items()])
        try:
            commands = self._of_plugins(ctx)
        except ConfigError as error:
            with formatter.section("Commands of plugins"):
                formatter.write_text(f"(not listed: {error})")
            return
        if commands:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(label(command.name), command.summary) for command in commands.values()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn errors into one line and an exit code."""
        try:
            with _visible_errors():
                return super().invoke(ctx)
        except Failure as failure:
            raise Failure(rewrite_advice(failure.message), failure.exit_code) from failure
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise  # click handles these
        except (KeyboardInterrupt, click.Abort) as end:
            if isinstance(end, click.Abort) and not isinstance(end.__context__, KeyboardInterrupt):
                raise  # a "no"; click raises Abort for Ctrl-C at its questions too
            raise Failure("interrupted", INTERRUPTED) from None
        except Exception as error:
            if verbose(ctx):
                show_traceback(error)
            from .errors import explain_error

            line = explain_error(error, model_of(ctx))
            raise Failure(rewrite_advice(line.message), line.exit_code) from error


@contextmanager
def _visible_errors() -> Generator[None]:
    """Make what click prints of an error visible: it quotes arguments, which a script may have got from elsewhere."""
    try:
        yield
    except click.ClickException as error:
        error.message = visible(error.message)  # pyright: ignore[reportAttributeAccessIssue]  # Final, and the only way
        raise


@click.group(
    cls=Deep,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=False,
)
@click.version_option(__version__, prog_name="deep", message=f"%(prog)s %(version)s (deep-agent-core {core_version})")
@verbose_option
@click.pass_context
def deep(ctx: click.Context) -> None:
    """Deep agents on Pydantic AI; every feature is a plugin.

    `deep` alone chats about the current folder; `deep demo` shows a task without a key; `deep run "TASK"` runs yours.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 usage or configuration, 3 an approval was denied.

    Without a word it is `deep chat` on a terminal, and the help elsewhere.

    Args:
        args: the words after `deep`; None means `sys.argv`.
    """
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    open_streams()
    words = sys.argv[1:] if args is None else list(args)
    if not words and sys.stdin.isatty() and sys.stderr.isatty():
        words = ["chat"]
    deep.main(args=words, prog_name="deep")
