"""deep_demo."""
