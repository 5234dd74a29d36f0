"""Uploads: receive a form, detect its type, store it and enqueue its ingestion."""
