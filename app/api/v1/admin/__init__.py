"""Routes of tenants, keys, audit, usage, webhooks, status and capabilities."""
