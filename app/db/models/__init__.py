"""The tables, one class each."""
