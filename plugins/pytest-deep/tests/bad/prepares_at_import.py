"""A plugin that does work at import and ends it before the import does."""

from __future__ import annotations

import logging
import sqlite3
import sys
import threading

from deep_core import hookimpl

sqlite3.connect(":memory:").close()
threading.Thread(target=list, name="weather-cache").start()
logging.disable(logging.DEBUG)
threading.excepthook = lambda failed: None
sys.setrecursionlimit(sys.getrecursionlimit() + 1)


@hookimpl
def deep_options() -> None:
    return None
