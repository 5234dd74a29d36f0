"""Parser processes: the pool, the protocol, and the program that runs in the sandbox."""
