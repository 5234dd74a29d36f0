"""Custom prompts of knowledge bases and agents, in numbered versions."""
