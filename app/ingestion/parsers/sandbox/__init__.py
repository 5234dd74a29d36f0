"""The parser processes: pool, protocol and the program that runs in the sandbox."""
