"""Uploads of ready chunks: they are neither parsed nor chunked, but embedded and stored like all others."""

from pathlib import Path

from app.documents.upload.provided_chunks import decode_chunks
from app.inference.embedding import EmbeddingIdentity
from app.ingestion.chunkers import ChunkTools
from app.ingestion.embedding_text import ChunkedDocument, contextualize_chunks
from app.ingestion.tree import SEPARATOR
from app.ingestion.types import BlockKind, ChunkDraft, ChunkTooLong, DocumentTree, NodeKind, TreeNode


def read_provided_chunks(
    path: Path, title: str | None, model: EmbeddingIdentity, tools: ChunkTools, *, source: str = ""
) -> ChunkedDocument:
    """Read the chunks of an upload. Each chunk becomes a paragraph of a tree without sections. The call blocks.

    Args:
        path: The uploaded file.
        title: Title of the document.
        model: Embedding identity of the knowledge base. Vectors of another model are ignored: their texts are embedded.
        tools: Tools of the embedder.
        source: Name of the document.

    Returns:
        The chunks in the order of the upload.

    Raises:
        ChunkTooLong: A chunk without a usable vector has more tokens than the model reads.
    """
    chunks_by_ordinal = decode_chunks(path.read_bytes(), model=model)
    ordinals, chunks = list(chunks_by_ordinal), list(chunks_by_ordinal.values())
    token_counts = tools.count_tokens([chunk.text for chunk in chunks])
    root = TreeNode(NodeKind.DOCUMENT, 0, 0, 0, title=title)
    drafts: list[ChunkDraft] = []
    position = 0
    for number, (ordinal, chunk, tokens) in enumerate(zip(ordinals, chunks, token_counts, strict=True)):
        if chunk.vector is None and tokens > tools.max_tokens:
            limit = f"the embedding model reads {tools.max_tokens}. Split the chunk"
            raise ChunkTooLong(f"The chunk at index {ordinal} has {tokens} tokens; {limit}.", index=ordinal)
        end, page = position + len(chunk.text), chunk.page
        leaf = TreeNode(NodeKind.PARAGRAPH, 0, position, end, path=(number,), page=page, page_end=page)
        leaf.block = BlockKind.PARAGRAPH
        root.children.append(leaf)
        drafts.append(
            ChunkDraft(
                chunk.text,
                position,
                end,
                section_titles=chunk.section_titles,
                page=page,
                page_end=page,
                node_path=leaf.path,
                metadata=chunk.metadata,
                ordinal=ordinal,
                provided_graph=chunk.graph,
            )
        )
        position = end + len(SEPARATOR)
    root.end = position - len(SEPARATOR)
    pages = [chunk.page for chunk in chunks if chunk.page is not None]
    root.page, root.page_end = min(pages, default=None), max(pages, default=None)
    return ChunkedDocument(
        tree=DocumentTree(SEPARATOR.join(chunk.text for chunk in chunks), root),
        drafts=drafts,
        token_counts=token_counts,
        texts=contextualize_chunks(
            title, drafts, count_tokens=tools.count_tokens, max_tokens=tools.max_tokens, source=source
        ),
        page_count=root.page_end,
        vectors={number: chunk.vector for number, chunk in enumerate(chunks) if chunk.vector is not None},
    )
