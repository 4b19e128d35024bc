"""The built-in commands, one a file; each is imported when it is typed."""
