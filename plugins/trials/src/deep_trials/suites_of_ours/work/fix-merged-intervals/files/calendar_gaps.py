"""Free time between meetings."""


def gaps(start, end, meetings):
    """Return the free spans `[from, to]` of a day, in minutes. Meetings are `[from, to]`."""
    meetings.sort()
    free = []
    at = start
    for begin, finish in meetings:
        if begin > at:
            free.append([at, begin])
        at = finish
    if at < end:
        free.append([at, end])
    return free
