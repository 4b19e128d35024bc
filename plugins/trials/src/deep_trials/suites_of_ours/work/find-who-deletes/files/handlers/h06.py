"""The handler h06."""

from core.m18 import blend as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
