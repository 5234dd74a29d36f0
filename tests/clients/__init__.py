"""Clients that people embed."""
