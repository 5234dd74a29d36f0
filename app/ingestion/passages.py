"""What is embedded and indexed for a chunk: the document's title and the headings above it, then the raw passage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.ingestion.types import ChunkDraft, DocumentTree, Picture

# Characters; what is longer is counted by itself before titles are put before it.
LONG_PASSAGE = 20_000


@dataclass(frozen=True, slots=True)
class Passages:
    """What parsing and chunking yield; the sequences run parallel.

    ``token_counts`` are the drafts' own sizes, ``texts`` what is embedded and indexed; ``vectors`` are those that came
    with the document, by position; so is ``shown``, the number of the picture that a draft is, in ``pictures``.
    """

    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    texts: Sequence[str]
    title: str | None = None
    page_count: int | None = None
    warnings: Sequence[str] = ()
    vectors: Mapping[int, Sequence[float]] = field(default_factory=dict)
    shown: Mapping[int, int] = field(default_factory=dict)
    pictures: Mapping[int, Picture] = field(default_factory=dict)


def passage_texts(
    title: str | None,
    drafts: Sequence[ChunkDraft],
    *,
    count_tokens: Callable[[Sequence[str]], list[int]],
    limit: int,
) -> list[str]:
    """One text for each draft, in order: a line for the title and for each heading, a blank line, the passage.

    ``limit`` is what the model reads, special tokens apart. Where a text counts more, the title goes first, then the
    outermost headings; the passage is never cut, so it comes alone, and over the limit, where it is too long by itself.
    Nothing is said twice: a heading that is the title, or that begins the passage, is left out.
    """
    prefixes = [_prefix(title, draft) for draft in drafts]
    texts = [_join(prefix, draft) for prefix, draft in zip(prefixes, drafts, strict=True)]
    open_indexes = _fitting(texts, prefixes, drafts, count_tokens, limit)
    while open_indexes:
        counts = count_tokens([texts[index] for index in open_indexes])
        too_long = [index for index, tokens in zip(open_indexes, counts, strict=True) if tokens > limit]
        for index in too_long:
            del prefixes[index][0]
            texts[index] = _join(prefixes[index], drafts[index])
        open_indexes = [index for index in too_long if prefixes[index]]
    return texts


def _fitting(
    texts: list[str],
    prefixes: list[list[str]],
    drafts: Sequence[ChunkDraft],
    count_tokens: Callable[[Sequence[str]], list[int]],
    limit: int,
) -> list[int]:
    """The texts that titles may stay in; a passage that is too long by itself loses all of them at once.

    Such passages come with their vectors, and may be megabytes long: they are counted once, not once for each title.
    """
    long = [at for at, draft in enumerate(drafts) if prefixes[at] and len(draft.text) > LONG_PASSAGE]
    counts = count_tokens([drafts[at].text for at in long]) if long else []
    for at, tokens in zip(long, counts, strict=True):
        if tokens > limit:
            prefixes[at], texts[at] = [], drafts[at].text
    return [index for index, prefix in enumerate(prefixes) if prefix]


def _prefix(title: str | None, draft: ChunkDraft) -> list[str]:
    parts = [" ".join(part.split()) for part in (title or "", *draft.section_titles)]
    passage = " ".join(draft.text[: sum(map(len, draft.section_titles)) + len(title or "") + 1].split())
    kept: list[str] = []
    for part in parts:
        if part and part not in kept:
            kept.append(part)
    return [part for part in kept if not _begins(passage, part)]


def _begins(passage: str, part: str) -> bool:
    return passage.startswith(part) and not passage[len(part) : len(part) + 1].isalnum()


def _join(prefix: list[str], draft: ChunkDraft) -> str:
    return "\n".join(prefix) + "\n\n" + draft.text if prefix else draft.text
