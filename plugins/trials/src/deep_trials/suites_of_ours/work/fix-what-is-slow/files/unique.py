"""Rows without those whose key was seen before."""


def unique(rows, key):
    """Return the rows whose `key(row)` no earlier row has."""
    kept = []
    for row in rows:
        if not any(key(row) == key(other) for other in kept):
            kept.append(row)
    return kept
