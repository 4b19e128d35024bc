"""The handler h01."""

from core.m24 import scan as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
