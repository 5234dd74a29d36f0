"""Metadata backfill: application of changed enforced metadata to the stored documents of a knowledge base."""
