"""Commands that call the public HTTP API of a running service."""
