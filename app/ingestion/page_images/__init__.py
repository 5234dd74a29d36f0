"""Images of the pages of documents: drawn in the sandbox, cached in the object store."""
