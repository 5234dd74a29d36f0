"""Routes of knowledge bases and of their settings."""
