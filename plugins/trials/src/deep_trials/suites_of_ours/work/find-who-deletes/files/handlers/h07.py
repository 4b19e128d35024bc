"""The handler h07."""

from core.m40 import stamp as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
