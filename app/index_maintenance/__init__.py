"""Maintenance of search indexes: merged counts, recomputed weights, vector indexes and routing profiles."""
