"""Tests of SQL views."""
