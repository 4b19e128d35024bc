"""Show warnings about plugins and the kernel's log, each once, as one dim line on stderr."""

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

__all__ = ["show_warnings"]

LOGGERS = ("deep_core", "deep")
"""The kernel's logger, parent of the plugins' (`deep.<plugin>`)."""


def _say(text: str) -> None:
    say((f"deep: warning: {redact(rewrite_advice(text))}", "dim"), err=True)


class _Lines(logging.Handler):
    def __init__(self, texts: set[str]) -> None:
        super().__init__(logging.WARNING)
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._texts:
            self._texts.add(text)
            _say(text)


@contextmanager
def show_warnings() -> Generator[None]:
    """Show `PluginWarning`s and the kernel's log while open; other warnings take their usual way."""
    texts: set[str] = set()
    handler = _Lines(texts)
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
            for name in LOGGERS:
                logging.getLogger(name).removeHandler(handler)
