"""The handler h29."""

from core.m35 import route as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
