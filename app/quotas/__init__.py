"""Quotas: limits of a tenant and its API keys, and their usage."""
