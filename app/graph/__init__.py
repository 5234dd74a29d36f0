"""Graph of chunks and the entities that they name."""
