"""Once read export.max_count; no longer."""

# get("export.max_count")
NAME = "max_count"
