"""Metadata filters: parsing and compilation to two typed values for the database (docs/reference/filters.md)."""

from app.filters.compiler import CompiledFilter, compile_filter
from app.filters.errors import translate_filter_errors
from app.filters.metadata import build_filter_metadata, check_metadata
from app.filters.parser import CHUNK_NAMES, EXPIRY, RESERVED_NAMES
from app.filters.values import INSTANTS

__all__ = [
    "CHUNK_NAMES",
    "EXPIRY",
    "INSTANTS",
    "RESERVED_NAMES",
    "CompiledFilter",
    "build_filter_metadata",
    "check_metadata",
    "compile_filter",
    "translate_filter_errors",
]
