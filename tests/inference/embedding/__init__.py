"""Tests of the embedding models."""
