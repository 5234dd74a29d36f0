"""Ingestion: the straight line from a stored original to searchable chunks."""
