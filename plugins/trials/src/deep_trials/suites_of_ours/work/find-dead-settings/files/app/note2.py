"""Once read mail.idle_count; no longer."""

# get("mail.idle_count")
NAME = "idle_count"
