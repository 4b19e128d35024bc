"""Counts hits."""

_hits = {}
_order = []


def hit(name, times=1):
    """Count a hit, and return how many the name has."""
    if name not in _hits:
        _order.append(name)
    _hits[name] = _hits.get(name, 0) + times
    return _hits[name]


def top(most=3):
    """Return the names with most hits; with as many, those that came first."""
    return sorted(_order, key=lambda name: -_hits[name])[:most]


def reset():
    """Forget all hits."""
    _hits.clear()
    _order.clear()
