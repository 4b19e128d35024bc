"""The handler h17."""

from core.m46 import score as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
