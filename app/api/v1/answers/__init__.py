"""Routes of answers."""
