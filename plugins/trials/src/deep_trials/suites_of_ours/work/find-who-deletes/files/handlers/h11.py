"""The handler h11."""

from core.m26 import sync as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
