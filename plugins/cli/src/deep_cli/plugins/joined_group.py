"""One group of commands from several distributions: `deep mcp` has those of deep-universe and of deep-mcp-client."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..failure import Failure

__all__ = ["JoinedGroup", "can_join"]


def can_join(commands: Sequence[click.Command]) -> bool:
    """Whether all are groups that take no options of their own."""
    return all(isinstance(command, click.Group) and not command.params for command in commands)


class JoinedGroup(click.Group):
    """The commands of several groups of one name. A command that two of them have is an error when it is typed.

    Args:
        name: of the group.
        groups: distribution and group of each.
        failures: why the groups of other distributions cannot be loaded.
    """

    def __init__(self, name: str, groups: Sequence[tuple[str, click.Group]], failures: Sequence[Failure]) -> None:
        owners: dict[str, list[str]] = {}
        commands: dict[str, click.Command] = {}
        for owner, group in groups:
            for command in group.commands:
                owners.setdefault(command, []).append(owner)
                commands[command] = group.commands[command]
        self._owners, self._failures = owners, failures
        super().__init__(name, commands, help=" ".join((group.help or "").strip() for _, group in groups))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed.

        Raises:
            Failure: two distributions have it; or none that could be loaded has it, and one could not be loaded.
        """
        name = args[0]
        owners = self._owners.get(name, [])
        if len(owners) > 1:
            both = " and ".join(owners)
            raise Failure(f"deep {self.name} {name}: {both} both have it; pip uninstall {owners[-1]}")
        if not owners and self._failures and not name.startswith("-"):
            raise self._failures[0]
        return super().resolve_command(ctx, args)
