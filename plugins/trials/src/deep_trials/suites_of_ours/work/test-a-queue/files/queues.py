"""Queues."""


class Full(Exception):
    """There is no place."""


class Queue:
    """Values by their priority; those of one priority in the order in which they came."""

    def __init__(self, most=3):
        self.most = most
        self._values = []

    def push(self, value, priority=0):
        """Add a value; higher priorities come first. Raises Full, and changes nothing, if `most` are waiting."""
        if len(self._values) >= self.most:
            raise Full(value)
        at = len(self._values)
        while at and self._values[at - 1][0] < priority:
            at -= 1
        self._values.insert(at, (priority, value))

    def pop(self):
        """Take the first value. Raises IndexError if there is none."""
        return self._values.pop(0)[1]

    def __len__(self):
        """Count the values that wait."""
        return len(self._values)
