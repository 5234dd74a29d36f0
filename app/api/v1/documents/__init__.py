"""Routes of documents and of everything that belongs to one document."""
