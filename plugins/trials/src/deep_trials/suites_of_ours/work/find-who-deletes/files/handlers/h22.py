"""The handler h22."""

from core.m17 import sync as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
