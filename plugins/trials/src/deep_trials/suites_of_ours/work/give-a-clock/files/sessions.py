"""Sessions that end when nobody uses them."""

import time


class Session:
    """Ends `idle` seconds after it was last used."""

    def __init__(self, user, idle=600):
        self.user, self.idle = user, idle
        self.used = time.time()

    def touch(self):
        """Use it. One that has ended stays so."""
        if not self.ended():
            self.used = time.time()

    def ended(self):
        """Whether it has ended: after `idle` seconds, not before."""
        return time.time() - self.used >= self.idle
