"""The handler h14."""

from core.m16 import fold as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
