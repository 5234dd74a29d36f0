"""The parsers on sample files, and the pool that runs them."""
