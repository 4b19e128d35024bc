"""The handler h04."""

from core.m08 import shift as work


def handle(request):
    """Answer."""
    work(request.rows)
    return "ok"
