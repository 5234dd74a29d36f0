"""SQL views."""
