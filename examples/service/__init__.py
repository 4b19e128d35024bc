"""A service with two tenants."""
