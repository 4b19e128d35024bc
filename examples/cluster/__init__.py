"""Services, workers and a page on one PostgreSQL."""
