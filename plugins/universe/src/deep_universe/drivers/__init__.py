"""The drivers of this package, one module each."""
