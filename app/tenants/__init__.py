"""Tenants: who the customers are, their API keys, and who is calling."""
