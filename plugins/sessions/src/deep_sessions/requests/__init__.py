"""Each request to a model: how it ended, when to send it again, how long to wait for it, and what fits into it."""
