"""Tests of the embedded Postgres, on real clusters with real processes."""
