"""Removal of expired, deleted and abandoned data in the background."""
