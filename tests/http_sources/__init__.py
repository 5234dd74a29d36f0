"""Tests of HTTP sources."""
