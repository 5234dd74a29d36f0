"""Kinds of sources that knowledge bases without documents search: HTTP, agent search, and pgvector collections."""
