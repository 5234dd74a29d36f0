"""Postgres: the engine, the tenant scope of every transaction, the tables, and the way to migrate them."""
