"""Tests of the documents package."""
