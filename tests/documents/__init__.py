"""The documents room."""
