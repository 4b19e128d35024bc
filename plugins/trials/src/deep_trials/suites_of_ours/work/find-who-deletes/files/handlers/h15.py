"""The handler h15."""

from core.m26 import fold as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
