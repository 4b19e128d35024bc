"""A cache that forgets what was used least recently, and what is too old."""


class Cache:
    """Keeps `size` values, each for `seconds`. Times are given, so that nothing waits."""

    def __init__(self, size, seconds):
        self.size, self.seconds = size, seconds
        self._values = {}

    def put(self, key, value, now):
        """Keep a value from `now` on."""
        if len(self._values) >= self.size:
            self._values.pop(next(iter(self._values)))
        self._values[key] = (value, now)

    def get(self, key, now):
        """Return the value, or None if there is none or it is `seconds` old or older."""
        if key not in self._values:
            return None
        value, since = self._values[key]
        if now - since > self.seconds:
            return None
        return value

    def __len__(self):
        """Count the values that are kept."""
        return len(self._values)
