"""Which suite a word means: a folder, a file of BFCL's entries, a dataset of pydantic-evals, or a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from deep_core.plugin_api import suggest

from .bfcl import CALLS, calls_suite, is_bfcl, load_bfcl
from .datasets import is_dataset, load_dataset
from .dialogue import DIALOGUE, dialogue_suite
from .errors import SuiteError, TrialsError
from .injection import INJECTION, injection_suite
from .suites import FILE, Suite, known_suites, load_suite

if TYPE_CHECKING:
    from deep_core import PluginKernel

__all__ = ["find_suite", "suite_lines"]

OF_PACKAGES: Mapping[str, Callable[[], Suite]] = {
    CALLS: calls_suite,
    INJECTION: injection_suite,
    DIALOGUE: dialogue_suite,
}
"""Suites whose tasks other packages have."""


def find_suite(name: str, kernel: PluginKernel) -> Suite:
    """Return a suite by the path of its folder, of BFCL's entries or of a dataset, or by its name.

    Raises:
        SuiteError: there is none, or it is wrong.
        TaskError: one of its tasks is wrong.
    """
    folder = Path(name)
    if is_bfcl(folder):
        return load_bfcl(folder.resolve())
    if is_dataset(folder):
        return load_dataset(folder.resolve())
    if (folder / FILE).is_file():
        return load_suite(folder.resolve())
    suites = known_suites(kernel)
    if name in suites:
        return load_suite(suites[name])
    if name in OF_PACKAGES:
        return OF_PACKAGES[name]()
    if folder.is_dir():
        raise SuiteError(f'{folder} has no {FILE}: write one with `license = "…"`, beside the folders of its tasks')
    known = sorted({*suites, *OF_PACKAGES})
    raise SuiteError(f"there is no suite {name!r}.{suggest(name, known)} Known: {', '.join(known)}, or a folder")


def suite_lines(kernel: PluginKernel) -> Iterator[str]:
    """Yield a line for each suite that has a name; one that cannot be read has its error there."""
    for name in sorted({*known_suites(kernel), *OF_PACKAGES}):
        try:
            suite = find_suite(name, kernel)
        except TrialsError as error:
            yield f"{name}  {error}"
        else:
            yield f"{name}  {len(suite.tasks)} tasks  {suite.file.description}"
