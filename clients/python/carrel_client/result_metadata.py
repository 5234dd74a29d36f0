"""Metadata of a search result for LangChain and LlamaIndex."""

from typing import Any

from carrel_client.types import Result


def build_metadata(result: Result) -> dict[str, Any]:
    """Return the metadata of a result; fields of Carrel replace metadata of the document with the same key."""
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
        "table_head": result["table_head"],
        "flags": result["flags"],
    }
