"""Once read login.retry_count; no longer."""

# get("login.retry_count")
NAME = "retry_count"
