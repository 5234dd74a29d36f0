"""Read access to the content of documents: text, tree, chunks, images and the catalog."""
