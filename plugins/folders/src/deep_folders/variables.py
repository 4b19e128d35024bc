"""Read what hooks of `SessionStart` set for commands: a file of shell lines such as `export NAME=value`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from deep_core.plugin_api import find_program

from .environment import hook_environment

__all__ = ["variables_of"]

SECONDS = 10.0
MOST_BYTES = 100_000
SHELL_OWN = ("_", "SHLVL", "PWD", "OLDPWD")
READ = 'set -a; . "$1" >/dev/null 2>&1; env -0'


async def variables_of(file: Path, place: str) -> dict[str, str]:
    """Return the variables that a file sets, as the shell understands it; none if it cannot.

    Args:
        file: that hooks, which are trusted, wrote.
        place: the workspace.
    """
    shell = find_program("bash", outside=place) or "/bin/sh"
    before = hook_environment(shell)
    process = await asyncio.create_subprocess_exec(
        shell, "-c", READ, shell, str(file), stdout=asyncio.subprocess.PIPE, cwd=file.parent, env=before
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return {}
    if len(out) > MOST_BYTES:
        return {}
    pairs = (entry.partition("=") for entry in out.decode(errors="replace").split("\0") if entry)
    return {name: value for name, _, value in pairs if name not in SHELL_OWN and before.get(name) != value}
