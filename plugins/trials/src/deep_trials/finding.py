"""Which suite a word means: a folder, a file of BFCL's entries, or a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deep_core.plugin_api import suggest

from .bfcl import CALLS, calls_suite, is_bfcl, load_bfcl
from .errors import SuiteError
from .suites import FILE, Suite, known_suites, load_suite

if TYPE_CHECKING:
    from deep_core import PluginKernel

__all__ = ["find_suite"]


def find_suite(name: str, kernel: PluginKernel) -> Suite:
    """Return a suite by the path of its folder or of a file of BFCL's entries, or by its name.

    Raises:
        SuiteError: there is none, or it is wrong.
        TaskError: one of its tasks is wrong.
    """
    folder = Path(name)
    if is_bfcl(folder):
        return load_bfcl(folder.resolve())
    if (folder / FILE).is_file():
        return load_suite(folder.resolve())
    suites = known_suites(kernel)
    if name in suites:
        return load_suite(suites[name])
    if name == CALLS:
        return calls_suite()
    if folder.is_dir():
        raise SuiteError(f'{folder} has no {FILE}: write one with `license = "…"`, beside the folders of its tasks')
    raise SuiteError(
        f"there is no suite {name!r}.{suggest(name, suites)} Known: {', '.join(sorted(suites))}, or a folder"
    )
