"""The handler h19."""

from core.m16 import sync as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
