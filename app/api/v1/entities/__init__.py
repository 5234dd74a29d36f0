"""Routes of the entities of a knowledge base."""
