"""Postgres: connections, tenant-scoped transactions, tables, SQL functions and migrations."""
