"""The handler h08."""

from core.m40 import route as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
