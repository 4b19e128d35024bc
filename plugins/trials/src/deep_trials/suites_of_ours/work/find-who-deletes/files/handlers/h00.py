"""The handler h00."""

from core.m38 import clean as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
