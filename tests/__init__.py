"""The tests: they mirror the tree of the service."""
