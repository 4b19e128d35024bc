"""See search.idle_size in the handbook."""

NAME = "search"
