"""Text that is embedded and indexed for a chunk: title of the document, headings above the chunk, text of the chunk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.ingestion.types import ChunkDraft, DocumentTree, EncodedImage
from app.warnings import ServiceWarning

LONG_CHUNK_CHARACTERS = 20_000
"""Number of characters above which the tokens of a chunk are counted without titles first."""


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """Result of parsing and chunking. The sequences have one item for each chunk, in the same order.

    Attributes:
        tree: Tree of the document.
        drafts: The chunks.
        token_counts: Number of tokens of each chunk's text, with the repeated head of a table.
        texts: Text of each chunk that is embedded and indexed, with title and headings.
        title: Title that the parser found.
        page_count: Number of pages or slides.
        warnings: Warnings for the owner of the document.
        vectors: Vectors that came with the upload, by the position of their chunk.
        image_numbers: Numbers of the images, by the position of the chunk that represents the image.
        images: Images by their number.
    """

    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    texts: Sequence[str]
    title: str | None = None
    page_count: int | None = None
    warnings: Sequence[ServiceWarning] = ()
    vectors: Mapping[int, Sequence[float]] = field(default_factory=dict)
    image_numbers: Mapping[int, int] = field(default_factory=dict)
    images: Mapping[int, EncodedImage] = field(default_factory=dict)


def contextualize_chunks(
    title: str | None,
    drafts: Sequence[ChunkDraft],
    *,
    count_tokens: Callable[[Sequence[str]], list[int]],
    max_tokens: int,
) -> list[str]:
    """Return the text that is embedded for each chunk: title, headings, a blank line and the chunk's text.

    The title and each heading have a line. A heading that equals the title or begins the chunk's text is left out. If a
    text has too many tokens, the title is dropped first, then the outermost headings. The chunk's text is never cut: a
    chunk that is too long by itself is returned without titles.

    Args:
        title: Title of the document.
        drafts: The chunks.
        count_tokens: Token counter of the embedder.
        max_tokens: Maximum number of tokens that the model reads, without special tokens.

    Returns:
        One text for each chunk, in the same order.
    """
    prefixes = [_build_prefix(title, draft) for draft in drafts]
    texts = [_join_prefix(prefix, draft) for prefix, draft in zip(prefixes, drafts, strict=True)]
    pending_indexes = _drop_oversized_prefixes(texts, prefixes, drafts, count_tokens, max_tokens)
    while pending_indexes:
        counts = count_tokens([texts[index] for index in pending_indexes])
        too_long = [index for index, tokens in zip(pending_indexes, counts, strict=True) if tokens > max_tokens]
        for index in too_long:
            del prefixes[index][0]
            texts[index] = _join_prefix(prefixes[index], drafts[index])
        pending_indexes = [index for index in too_long if prefixes[index]]
    return texts


def _drop_oversized_prefixes(
    texts: list[str],
    prefixes: list[list[str]],
    drafts: Sequence[ChunkDraft],
    count_tokens: Callable[[Sequence[str]], list[int]],
    max_tokens: int,
) -> list[int]:
    """Drop all titles of chunks that are too long even without titles, and return the positions of the other chunks.

    A chunk that is too long was uploaded with its vector and may have megabytes. Its tokens are counted once, not once
    for each title.
    """
    long_positions = [
        at for at, draft in enumerate(drafts) if prefixes[at] and len(draft.content) > LONG_CHUNK_CHARACTERS
    ]
    counts = count_tokens([drafts[at].content for at in long_positions]) if long_positions else []
    for at, tokens in zip(long_positions, counts, strict=True):
        if tokens > max_tokens:
            prefixes[at], texts[at] = [], drafts[at].content
    return [index for index, prefix in enumerate(prefixes) if prefix]


def _build_prefix(title: str | None, draft: ChunkDraft) -> list[str]:
    parts = [" ".join(part.split()) for part in (title or "", *draft.section_titles)]
    beginning = " ".join(draft.content[: sum(map(len, draft.section_titles)) + len(title or "") + 1].split())
    unique_parts: list[str] = []
    for part in parts:
        if part and part not in unique_parts:
            unique_parts.append(part)
    return [part for part in unique_parts if not _starts_with(beginning, part)]


def _starts_with(text: str, part: str) -> bool:
    return text.startswith(part) and not text[len(part) : len(part) + 1].isalnum()


def _join_prefix(prefix: list[str], draft: ChunkDraft) -> str:
    return "\n".join(prefix) + "\n\n" + draft.content if prefix else draft.content
