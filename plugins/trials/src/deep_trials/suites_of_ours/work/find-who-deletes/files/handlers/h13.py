"""The handler h13."""

from core.m34 import index as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
