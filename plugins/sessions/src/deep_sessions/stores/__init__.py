"""The stores: `memory:`, `sqlite:///path`, `postgresql://…`."""
