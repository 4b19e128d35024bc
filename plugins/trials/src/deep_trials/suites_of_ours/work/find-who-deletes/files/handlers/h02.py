"""The handler h02."""

from core.m36 import shift as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
