"""Servers for tests that implement protocols of other programs, with real HTTP on a free port of the loopback."""
