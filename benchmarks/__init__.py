"""Measurements of speed and quality; nothing here is part of the service."""
