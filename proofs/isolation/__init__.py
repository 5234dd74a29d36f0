"""Proof of tenant isolation: every operation with ids of another tenant, compared with unknown ids."""
