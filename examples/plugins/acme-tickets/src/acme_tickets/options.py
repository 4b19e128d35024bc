"""The options of the plugin."""

from __future__ import annotations

from deep_core import PluginOptions

__all__ = ["TicketsOptions"]


class TicketsOptions(PluginOptions):
    """Options of the plugin `tickets`. None is marked as safe from a project: the address gets a password."""

    url: str = ""
    """The service's address, such as `https://tickets.example.com`. Without it there are no tools."""
    user: str = "agent"
    """Who logs in."""
    password_env: str = "TICKETS_PASSWORD"
    """The environment variable with the password: a secret does not belong into a file."""
    seconds: float = 20.0
    """How long a request may take."""
