"""The handler h27."""

from core.m30 import index as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
