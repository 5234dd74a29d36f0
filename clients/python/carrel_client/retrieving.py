"""What frameworks are told of a passage beside its text."""

from typing import Any

from carrel_client.types import Result


def facts(result: Result) -> dict[str, Any]:
    """The passage's own metadata, and above it what Carrel says."""
    document = result["document"]
    return {
        **result["metadata"],
        "score": result["score"],
        "similarity": result["similarity"],
        "citation": result["citation"],
        "knowledge_base": result["knowledge_base"],
        "document_id": document["id"],
        "source": document["source"],
        "title": document["title"],
        "source_uri": document["source_uri"],
        "chunk_id": result["chunk_id"],
        "chunk_index": result["chunk_index"],
        "page": result["page"],
        "section_titles": result["section_titles"],
        "flags": result["flags"],
    }
