"""Prompts that admins write: those of a knowledge base and of an agent, each kept in numbered versions."""
