"""Parsers by format: one module or one package for each format."""
