"""Show warnings about plugins and the kernel's log, each once, as one dim line on stderr; more of it with `-v`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from deep_core import PluginWarning
from deep_core.plugin_api import visible

from ..terminal.output import say
from ..terminal.screen import redact
from .advice import rewrite_advice

__all__ = ["show_more", "show_warnings"]

LOGGERS = ("deep_core", "deep")
"""The kernel's logger, parent of the plugins' (`deep.<plugin>`)."""


def _say(text: str, kind: str = "warning: ") -> None:
    say((f"deep: {kind}{redact(rewrite_advice(text))}", "dim"), err=True)


class _Lines(logging.Handler):
    def __init__(self, texts: set[str]) -> None:
        super().__init__(logging.INFO)  # the loggers let warnings through, and all of this with `-v`
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._texts:
            self._texts.add(text)
            _say(text, "warning: " if record.levelno >= logging.WARNING else "")


def show_more() -> None:
    """Show what the kernel's log says besides warnings, such as what is left out and why."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)


@contextmanager
def show_warnings() -> Generator[None]:
    """Show `PluginWarning`s and the kernel's log while open; other warnings take their usual way."""
    texts: set[str] = set()
    handler, levels = _Lines(texts), {name: logging.getLogger(name).level for name in LOGGERS}
    with warnings.catch_warnings():
        warnings.simplefilter("always", PluginWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, PluginWarning):
                usual(visible(str(message)), category, *rest, **more)
            elif str(message) not in texts:
                texts.add(str(message))
                _say(str(message))

        warnings.showwarning = show
        for name in LOGGERS:
            logging.getLogger(name).addHandler(handler)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).removeHandler(handler)
                logging.getLogger(name).setLevel(level)
