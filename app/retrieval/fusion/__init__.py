"""Fusion of ranked lists, and of results from different sources."""
