"""Routes of golden sets and evaluations."""
