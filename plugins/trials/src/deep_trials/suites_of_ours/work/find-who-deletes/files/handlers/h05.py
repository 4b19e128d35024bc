"""The handler h05."""

from core.m23 import batch as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
