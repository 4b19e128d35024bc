"""Policy: which tools are shown, which calls ask a person, which are refused."""
