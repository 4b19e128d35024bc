"""Peers, each in an environment of its own that does not have deep: how they are started, and what runs there."""
