"""The handler h12."""

from core.m41 import fold as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
