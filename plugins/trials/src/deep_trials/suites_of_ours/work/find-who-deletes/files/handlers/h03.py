"""The handler h03."""

from core.m42 import merge as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
