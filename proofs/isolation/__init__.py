"""Proof of tenant isolation: replies to ids of another tenant are compared with replies to unknown ids."""
