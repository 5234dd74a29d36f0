"""Application of a changed enforced metadata to the stored documents of a knowledge base."""
