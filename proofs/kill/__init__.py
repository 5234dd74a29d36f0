"""Proof that kills API, workers and Postgres in every stage of ingestion while checkers search."""
