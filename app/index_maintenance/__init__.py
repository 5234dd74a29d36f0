"""Maintenance of search indexes: folding, re-weighing, and vector indexes of their own for the large ones."""
