"""Deletion of documents, and the receipts that prove a deletion is complete."""
