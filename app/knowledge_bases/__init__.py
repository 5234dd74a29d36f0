"""Knowledge bases: named sets of documents with one way to chunk, embed and search them."""
