"""Retrieval: search of knowledge bases for the chunks that answer a question or a conversation."""
