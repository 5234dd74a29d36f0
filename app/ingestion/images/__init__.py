"""Images of documents: descriptions by a vision model, and embeddings."""
