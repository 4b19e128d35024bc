"""Deletes."""


def wipe(table):
    """Delete all rows of a table."""
    table.clear()
