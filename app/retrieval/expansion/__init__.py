"""Expansion of hits to windows, sections or parents, and auto-merging."""
