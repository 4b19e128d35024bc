"""The tiny kernel: find plugins, check them, order them and call them. It knows no agent."""
