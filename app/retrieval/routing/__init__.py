"""Routing: the choice of knowledge bases for a search."""
