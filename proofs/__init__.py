"""Proofs: long-running programs that try to break a promise of the service."""
