"""The handler h23."""

from core.m22 import shift as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
