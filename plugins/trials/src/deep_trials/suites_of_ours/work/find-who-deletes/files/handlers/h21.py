"""The handler h21."""

from core.m20 import merge as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
