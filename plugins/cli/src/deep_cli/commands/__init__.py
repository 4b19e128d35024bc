"""The built-in commands, one per file, imported when typed."""
