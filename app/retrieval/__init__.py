"""Retrieval: from a question or a conversation to the few passages that matter."""
