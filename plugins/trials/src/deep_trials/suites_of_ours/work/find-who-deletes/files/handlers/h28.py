"""The handler h28."""

from core.m19 import merge as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
