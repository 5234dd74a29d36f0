"""Interface for extractor plugins: the chunks of a document, and the entities that an extractor finds in them."""

from app.graph.extraction.extractor import ChunkText
from app.graph.extraction.plugin_extractor import EntityExtractor
from app.graph.extraction.types import Entity

__all__ = ["ChunkText", "Entity", "EntityExtractor"]
