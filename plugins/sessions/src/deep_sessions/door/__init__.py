"""One door in: what enters a conversation, from wherever, is made such that every provider can be sent it."""
