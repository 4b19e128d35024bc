"""One run: the capability that plugins act through, the history, the session and its events."""
