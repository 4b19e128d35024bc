"""Tables of customers."""


def read_rows(path):
    """Return the rows of a table, by the names of its first line."""
    with open(path, encoding="utf-8") as lines:
        names = next(lines).strip().split(",")
        return [dict(zip(names, line.strip().split(","), strict=True)) for line in lines]
