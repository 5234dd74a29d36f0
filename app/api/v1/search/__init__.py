"""Routes of searches: one knowledge base, several, and the external-search contract."""
