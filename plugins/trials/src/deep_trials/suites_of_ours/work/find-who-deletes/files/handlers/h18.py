"""The handler h18."""

from core.m14 import score as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
