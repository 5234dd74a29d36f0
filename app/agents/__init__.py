"""Agent bindings: the knowledge bases and search settings for callers that name an agent and no knowledge base."""
