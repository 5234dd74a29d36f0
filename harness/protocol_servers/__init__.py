"""Servers that speak other programs' protocols for the tests: real HTTP, on a free port of the loopback."""
