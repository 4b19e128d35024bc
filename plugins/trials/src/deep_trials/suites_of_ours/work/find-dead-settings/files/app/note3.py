"""Once read queue.min_size; no longer."""

# get("queue.min_size")
NAME = "min_size"
