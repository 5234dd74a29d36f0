"""Parser of reStructuredText."""
