"""The options of the plugin."""

from __future__ import annotations

import re

from deep_core import PluginOptions

__all__ = ["RedactorOptions"]


class RedactorOptions(PluginOptions):
    """Options of the plugin `redactor`."""

    hide: re.Pattern[str] = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(\.[\w-]+)+")
    """A regular expression for texts to hide from the model. By default, e-mail addresses."""

    confidential: re.Pattern[str] = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
    """A regular expression for texts that no call may send. By default, private keys."""
