"""The parser of reStructuredText."""
