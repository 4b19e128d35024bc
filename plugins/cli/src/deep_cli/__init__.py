"""deep_cli."""
