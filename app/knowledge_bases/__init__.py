"""Knowledge bases: named sets of documents with common settings for chunking, embedding and search."""
