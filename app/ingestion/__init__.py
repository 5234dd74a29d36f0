"""Ingestion: a pipeline that turns the uploaded file of a document into searchable chunks."""
