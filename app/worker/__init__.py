"""The worker: it claims jobs, runs their handlers and records the outcomes."""
