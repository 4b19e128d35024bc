"""The handler h26."""

from core.m35 import route as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
