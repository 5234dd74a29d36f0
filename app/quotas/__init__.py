"""Quotas: what a tenant and its keys may use, and what they have used."""
