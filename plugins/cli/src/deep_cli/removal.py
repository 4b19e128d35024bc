"""Uninstalling a plugin's distribution, with the installer that this environment has; the plugin is not imported."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .failure import FAILED, USAGE, Failure

if TYPE_CHECKING:
    from deep_core import PluginRecord

__all__ = ["distribution_of", "installer", "remove"]


def distribution_of(name: str, records: Sequence[PluginRecord]) -> str:
    """The distribution of a plugin, named by the plugin or by the distribution.

    Raises:
        Failure: it is not installed, or two distributions have a plugin of that name.
    """
    from deep_core.errors import suggest
    from deep_core.load import named

    found = sorted({r.distribution for r in records if r.distribution and named(r, [(name, "the command line")])})
    if not found:
        known = {r.name for r in records} | {r.distribution or "" for r in records}
        raise Failure(f"no plugin {name!r} is installed.{suggest(name, known)}", USAGE)
    if len(found) > 1:
        raise Failure(f"plugin {name!r} is in {', '.join(found)}; name one of these", USAGE)
    return found[0]


def installer(distribution: str) -> list[str]:
    """The command that uninstalls from this environment: its own pip, else uv.

    Raises:
        Failure: there is neither; the message has what to type.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "uninstall", "--yes", "--disable-pip-version-check", distribution]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "uninstall", "--python", sys.executable, distribution]
    raise Failure(
        f"{sys.executable} has no pip, and uv is not installed. Type one of: {sys.executable} -m ensurepip; "
        f"or, for an environment of pipx: pipx runpip NAME uninstall {distribution}",
        FAILED,
    )


def remove(distribution: str) -> None:
    """Uninstall a distribution.

    Raises:
        Failure: the installer failed, or the distribution is still there; with what the installer said.
    """
    from deep_core.kernel import survey

    command = installer(distribution)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    left = [record for record in survey().records if record.distribution == distribution]
    if done.returncode != 0 or left:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        said = lines[-1] if lines else f"exit code {done.returncode}"
        raise Failure(f"{distribution} was not uninstalled: {said}. The command was: {' '.join(command)}", FAILED)
