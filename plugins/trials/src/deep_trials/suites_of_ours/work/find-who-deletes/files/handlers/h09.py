"""The handler h09."""

from core.m13 import scan as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
