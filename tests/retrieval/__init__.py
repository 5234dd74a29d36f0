"""Tests of filters and fusion."""
