"""Webhooks: addresses that are told, signed and after the fact, what has happened in a tenant."""
