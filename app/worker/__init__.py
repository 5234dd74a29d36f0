"""The worker: claim jobs, run their handlers and settle them."""
