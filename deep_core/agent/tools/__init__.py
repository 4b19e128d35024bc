"""Tools: attributed to plugins, selected by expressions, joined in one toolbox."""
