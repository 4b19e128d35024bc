"""The handler h20."""

from core.m02 import stamp as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
