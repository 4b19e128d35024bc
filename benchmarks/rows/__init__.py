"""The rows: one file each, with `measure`, and with `child` for what runs in a process of its own."""
