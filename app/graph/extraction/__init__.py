"""Extraction of entities from chunks without a model, and by the extractors of plugins."""
