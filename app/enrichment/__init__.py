"""Enrichment of documents by a chat model: summaries, keywords, entities and relations of sections."""
