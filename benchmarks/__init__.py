"""Benchmarks of speed and quality. The service does not import this package."""
