"""What is embedded and indexed for a chunk: the document's title and the headings above it, then the raw passage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.ingestion.types import ChunkDraft, DocumentTree, EncodedImage
from app.warnings import ServiceWarning

# Characters; what is longer is counted by itself before titles are put before it.
LONG_CHUNK_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """What parsing and chunking yield; the sequences run parallel.

    ``token_counts`` are the drafts' own sizes, ``texts`` what is embedded and indexed; ``vectors`` are those that came
    with the document, by position; so is ``image_numbers``, the number of the picture that a draft is, in ``images``.
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
    """One text for each draft, in order: a line for the title and for each heading, a blank line, the passage.

    ``max_tokens`` is what the model reads, special tokens apart. Where a text counts more, the title goes first, then
    the outermost headings; the passage is never cut, so it comes alone, and over the limit, where it is too long by
    itself. Nothing is said twice: a heading that is the title, or that begins the passage, is left out.
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
    """The texts that titles may stay in; a passage that is too long by itself loses all of them at once.

    Such passages come with their vectors, and may be megabytes long: they are counted once, not once for each title.
    """
    long_positions = [at for at, draft in enumerate(drafts) if prefixes[at] and len(draft.text) > LONG_CHUNK_CHARACTERS]
    counts = count_tokens([drafts[at].text for at in long_positions]) if long_positions else []
    for at, tokens in zip(long_positions, counts, strict=True):
        if tokens > max_tokens:
            prefixes[at], texts[at] = [], drafts[at].text
    return [index for index, prefix in enumerate(prefixes) if prefix]


def _build_prefix(title: str | None, draft: ChunkDraft) -> list[str]:
    parts = [" ".join(part.split()) for part in (title or "", *draft.section_titles)]
    beginning = " ".join(draft.text[: sum(map(len, draft.section_titles)) + len(title or "") + 1].split())
    unique_parts: list[str] = []
    for part in parts:
        if part and part not in unique_parts:
            unique_parts.append(part)
    return [part for part in unique_parts if not _starts_with(beginning, part)]


def _starts_with(text: str, part: str) -> bool:
    return text.startswith(part) and not text[len(part) : len(part) + 1].isalnum()


def _join_prefix(prefix: list[str], draft: ChunkDraft) -> str:
    return "\n".join(prefix) + "\n\n" + draft.text if prefix else draft.text
