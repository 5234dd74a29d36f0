"""Webhooks: signed notifications of a tenant's events."""
