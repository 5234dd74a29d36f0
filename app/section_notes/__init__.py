"""Summaries and keywords of the sections above chunks, extracted when they are requested."""
