"""Reindexing: build the next generation of a search index from stored documents, and make it the live one."""
