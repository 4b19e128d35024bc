"""The handler h25."""

from core.m37 import shift as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
