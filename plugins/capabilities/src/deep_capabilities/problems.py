"""Why an entry is not in the agent: a status and a reason that ends with what to type."""

from __future__ import annotations

import re
from typing import Literal

from deep_core import MissingExtra

from .distributions import Owner, find_owner

__all__ = ["EntryError", "EntryStatus", "explain_import_error"]

EntryStatus = Literal[
    "ready", "disabled", "invalid", "refused", "needs-extra", "needs-package", "incompatible", "failed"
]
_REQUIREMENT = re.compile(r"[\w.-]+\[[\w,.-]+\]")


class EntryError(Exception):
    """The entry cannot be used.

    Attributes:
        status: of the entry.
        needs_options: whether its class has required arguments that the entry does not give.
    """

    def __init__(self, status: EntryStatus, reason: str, *, needs_options: bool = False) -> None:
        super().__init__(reason)
        self.status: EntryStatus = status
        self.needs_options = needs_options


def explain_import_error(error: ImportError, name: str, module: str) -> EntryError:
    """Say what to install so that the import works.

    Args:
        error: what the import of `module` raised.
        name: the class, as the entry names it.
        module: the module that the entry needs.
    """
    if isinstance(error, MissingExtra):
        return EntryError("needs-extra", f"{name} {error.advice()}")
    missing = error.name or ""
    top = module.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and (module == missing or module.startswith(f"{missing}.")):
        if missing == top:
            package = top.replace("_", "-")
            return EntryError("needs-package", f"{name}: no module {top!r} is installed: pip install {package}")
        return EntryError("invalid", f"{name}: there is no module {missing!r}")
    owner = find_owner(top)
    if named := _REQUIREMENT.search(str(error)):
        return _needs(name, named[0], owner)
    wanted = missing.partition(".")[0]
    if owner is not None and (extra := owner.extra_with(wanted)):
        return _needs(name, f"{owner.name}[{extra}]", owner)
    if wanted and wanted != top and find_owner(wanted) is None:  # else another version of it is wanted
        return EntryError(
            "needs-package", f"{name} needs the module {wanted!r}: pip install {wanted.replace('_', '-')}"
        )
    return EntryError("failed", f"{name}: {_one_line(error)}")


def _needs(name: str, requirement: str, owner: Owner | None) -> EntryError:
    # With the installed version: a plain name could bring another one, which pins another Pydantic AI.
    if owner is not None and requirement.partition("[")[0] == owner.name:
        requirement += f"=={owner.version}"
    return EntryError("needs-extra", f"{name} needs an optional dependency: pip install '{requirement}'")


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
