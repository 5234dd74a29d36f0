"""Text that is embedded and indexed for a chunk: file name, title of the document, headings, text of the chunk."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.documents.context_lines import ContextLine, find_context_lines
from app.ingestion.parsers.toolkit.links import strip_addresses
from app.ingestion.plain_tables import format_plain_tables
from app.ingestion.types import ChunkDraft, DocumentTree, EncodedImage
from app.lexical.filename_words import list_filename_words
from app.warnings import ServiceWarning

MAX_TITLE_TOKENS = 56
"""Maximum number of tokens of the title and the headings: a third of a chunk of the default size."""

LONG_CHUNK_CHARACTERS = 20_000
"""Number of characters above which the tokens of a chunk are counted without titles first."""

_WORD = re.compile(r"[^\W_]+")


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
    source: str = "",
) -> list[str]:
    """Return the text that is embedded for each chunk: title, headings, a blank line and the chunk's text.

    The words of the file name, the title and each heading have a line. A heading that equals the title or begins the
    chunk's text is left out. The file name is left out if the other lines contain its words. Links have no addresses,
    and tables have no bars. If the lines have more than ``MAX_TITLE_TOKENS`` tokens, the title is dropped first, then
    the outermost headings. The context line of a chunk follows the headings. If a text has too many tokens, its lines
    are dropped in the same order, the context line last. The chunk's text is never cut: a chunk that is too long by
    itself is returned without lines.

    Args:
        title: Title of the document.
        drafts: The chunks.
        count_tokens: Token counter of the embedder.
        max_tokens: Maximum number of tokens that the model reads, without special tokens.
        source: Name of the document, usually a file name.

    Returns:
        One text for each chunk, in the same order.
    """
    prefixes = [_build_prefix(title, draft) for draft in drafts]
    _limit_prefixes(prefixes, count_tokens, MAX_TITLE_TOKENS)
    name = list_filename_words(source)
    for prefix, draft in zip(prefixes, drafts, strict=True):
        _add_filename_words(prefix, name, title)
        if draft.context_line:
            prefix.append(draft.context_line)
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


def apply_context_lines(drafts: Sequence[ChunkDraft], lines: Sequence[ContextLine]) -> list[ChunkDraft]:
    """Return chunks with the context line that overlaps each of them most.

    Args:
        drafts: Chunks of a document.
        lines: Context lines of the document.
    """
    matched = (
        find_context_lines([(draft.start, draft.end) for draft in drafts], lines) if lines else [None] * len(drafts)
    )
    return [
        draft if draft.context_line == line else replace(draft, context_line=line)
        for draft, line in zip(drafts, matched, strict=True)
    ]


def _limit_prefixes(
    prefixes: Sequence[list[str]], count_tokens: Callable[[Sequence[str]], list[int]], max_tokens: int
) -> None:
    """Drop the first lines of prefixes with more than ``max_tokens`` tokens. The innermost heading stays."""
    lines = list(dict.fromkeys(line for prefix in prefixes for line in prefix))
    counts = dict(zip(lines, count_tokens(lines), strict=True)) if lines else {}
    for prefix in prefixes:
        tokens = sum(counts[line] for line in prefix)
        dropped = 0
        while dropped < len(prefix) - 1 and tokens > max_tokens:
            tokens -= counts[prefix[dropped]]
            dropped += 1
        del prefix[:dropped]


def _add_filename_words(prefix: list[str], name: Sequence[str], title: str | None) -> None:
    """Put the words of the file name that the other lines do not contain before a prefix."""
    present = {word for line in (*prefix, title or "") for word in _WORD.findall(line.casefold())}
    if any(word.casefold() not in present for word in name):
        prefix.insert(0, " ".join(name))


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
            prefixes[at], texts[at] = [], _format_content(drafts[at])
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
    return "\n".join(prefix) + "\n\n" + _format_content(draft) if prefix else _format_content(draft)


def _format_content(draft: ChunkDraft) -> str:
    return format_plain_tables(strip_addresses(draft.content), has_repeated_head=draft.table_head is not None)
