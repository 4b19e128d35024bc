"""The handler h24."""

from core.m01 import route as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
