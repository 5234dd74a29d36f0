"""Tests of tenancy."""
