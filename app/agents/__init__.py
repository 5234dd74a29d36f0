"""Agents: what each is bound to, so that a caller that names no knowledge base searches the right ones."""
