"""Events by day."""


def per_day(events, offset=0):
    """Return `{"2026-03-01": 2, …}`."""
    counts = {}
    for event in events:
        day = event[:10]
        counts[day] = counts.get(day, 0) + 1
    return counts
