"""HTTP mechanics that every API shares: request models, limits, problems, idempotency, event streams."""
