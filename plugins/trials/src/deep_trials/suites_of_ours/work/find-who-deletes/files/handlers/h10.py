"""The handler h10."""

from core.m21 import stamp as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
