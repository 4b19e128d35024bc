"""Years."""


def is_leap(year):
    """Return whether a year of the Gregorian calendar has 366 days. Raises ValueError for years before 1583."""
    if year < 1583:
        raise ValueError(f"{year} is before the calendar")
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
