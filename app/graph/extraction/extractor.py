"""Extraction of the entities of a chunk without a model."""

import heapq
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from app.graph.extraction.capital_names import find_capital_runs
from app.graph.extraction.german_names import list_german_names
from app.graph.extraction.identifiers import find_identifiers
from app.graph.extraction.names import normalize_name
from app.graph.extraction.quoted_names import find_quoted_names
from app.graph.extraction.run_names import list_run_names
from app.graph.extraction.titles import list_source_names, read_title
from app.graph.extraction.types import MAX_NAME_CHARACTERS, Entity, EntityMention
from app.graph.extraction.uncased_names import find_uncased_names
from app.graph.extraction.word_lists import ENGLISH, GERMAN
from app.lexical.text_language import identify_language
from app.text_normalization import normalize_text

MAX_MENTIONS_PER_CHUNK = 64
"""Maximum number of entities of one chunk."""

MAX_SCANNED_CHARACTERS = 100_000
"""Number of characters of a chunk that are read. Useful chunks are far shorter."""

TITLE_COUNT = 2
"""Occurrences by which a title, a heading, a source name, a metadata value or a provided entity counts."""

MAX_COUNT = 32_767
"""Maximum count of an entity, which the database stores in 16 bits."""

BUILTIN_KINDS = frozenset({"given", "title", "source", "heading", "metadata", "identifier", "quoted", "name"})
"""Kinds of entities that are found without a plugin."""

# An entity with several kinds has the first one. Kinds of plugins are between metadata and identifiers.
_PLUGIN_RANK = 5
_RANKS = {"given": 0, "title": 1, "source": 2, "heading": 3, "metadata": 4}
_RANKS |= {"identifier": 6, "quoted": 7, "name": 8, "uncased": 9}


@dataclass(frozen=True, slots=True)
class ChunkText:
    """Text of a chunk and of its surroundings.

    Attributes:
        text: Text of the chunk.
        title: Title of the document; empty if it has none.
        source_name: Name of the file, or its path or address; empty if it has none.
        headings: Titles of the sections around the chunk, from the outermost to the innermost.
        metadata: Metadata of the document and the chunk.
        given: Names of entities that came with the chunk.
        language: Language of the text, by the name of its analyzer; None detects the language.
    """

    text: str
    title: str
    source_name: str
    headings: tuple[str, ...]
    metadata: Mapping[str, JsonValue]
    given: tuple[str, ...]
    language: str | None


def extract_mentions(
    chunk: ChunkText,
    *,
    metadata_keys: Sequence[str],
    limit: int = MAX_MENTIONS_PER_CHUNK,
    entities: Sequence[Entity] = (),
) -> list[EntityMention]:
    """Return the entities of a chunk, in linear time.

    If there are more than ``limit``, provided entities, titles, source names, headings and metadata come first.
    Entities of plugins follow, then those with the highest count, then those that the text names first.

    Args:
        chunk: Text of the chunk and of its surroundings.
        metadata_keys: Metadata keys whose values are entities.
        limit: Maximum number of entities.
        entities: Entities that plugins found in the chunk.
    """
    text = chunk.text[:MAX_SCANNED_CHARACTERS]
    language = chunk.language or _detect_language(text)
    mentions = MentionCounts()
    for kind, names in _list_surroundings(chunk, metadata_keys):
        for name in dict.fromkeys(names):
            mentions.add(name, kind, -1, TITLE_COUNT)
    for entity in entities:
        mentions.add(entity.name, entity.kind, len(text), entity.count)
    _add_text_names(mentions, text, language)
    return mentions.select(limit)


@dataclass(slots=True)
class MentionCounts:
    """Counts of the entities of one chunk by their normalized names."""

    entries: dict[str, "_EntityCount"] = field(default_factory=dict)

    def add(self, name: str, kind: str, position: int, count: int = 1) -> None:
        """Count an entity. Names without a word, and numbers, are ignored.

        Args:
            name: Name, as it is written.
            kind: Kind of the entity.
            position: Offset in the text.
            count: Number of occurrences.
        """
        self.add_key(normalize_name(name), name, kind, position, count)

    def add_key(self, key: str, name: str, kind: str, position: int, count: int = 1) -> None:
        """Count an entity whose normalized name is known.

        Args:
            key: Normalized name.
            name: Name, as it is written.
            kind: Kind of the entity.
            position: Offset in the text.
            count: Number of occurrences.
        """
        entry = self.entries.get(key)
        if entry is not None:
            entry.counts[kind] = entry.counts.get(kind, 0) + count
        elif len(key) > 1 or _is_whole_word(key):
            self.entries[key] = _EntityCount(name, position, {kind: count})

    def contains(self, name: str) -> bool:
        """Return whether an entity was counted, by any spelling of its name."""
        return normalize_name(name) in self.entries

    def select(self, limit: int) -> list[EntityMention]:
        """Return the entities in the order of the selection.

        Args:
            limit: Maximum number of entities.
        """
        summaries = [(*entry.summarize(), key) for key, entry in self.entries.items() if not _is_number(key)]
        if len(summaries) > limit:
            summaries = heapq.nsmallest(limit, summaries)
        else:
            summaries.sort()
        return [
            EntityMention(_clean_name(self.entries[key].name), key, -negative_count, kind)
            for _, negative_count, _, kind, key in summaries
        ]


@dataclass(slots=True)
class _EntityCount:
    """One entity: its first form and place, and its occurrences by kind."""

    name: str
    position: int
    counts: dict[str, int]

    def summarize(self) -> tuple[int, int, int, str]:
        """Return what the selection sorts by: group of the kind, negative count, and place. The kind follows.

        A name that is an identifier or a quotation too is counted once.
        """
        kind = min(self.counts, key=_rank_kind) if len(self.counts) > 1 else next(iter(self.counts))
        rank = _rank_kind(kind)
        count = max((count for each, count in self.counts.items() if _rank_kind(each) >= _PLUGIN_RANK), default=0)
        count += TITLE_COUNT if rank < _PLUGIN_RANK else 0
        group = (rank >= _PLUGIN_RANK) + (rank > _PLUGIN_RANK)
        return group, -min(count, MAX_COUNT), self.position, "name" if kind == "uncased" else kind


def _rank_kind(kind: str) -> int:
    return _RANKS.get(kind, _PLUGIN_RANK)


def _list_surroundings(chunk: ChunkText, metadata_keys: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    yield "given", [name for name in chunk.given if name.strip()]
    yield "title", read_title(chunk.title)
    yield "source", list_source_names(chunk.source_name)
    yield "heading", [name for heading in chunk.headings for name in read_title(heading)]
    yield "metadata", [name for key in metadata_keys for name in _list_values(chunk.metadata.get(key))]


def _list_values(value: JsonValue) -> Iterator[str]:
    """Yield the texts of a metadata value: a text, or the texts of a list."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str) and 0 < len(each.strip()) <= MAX_NAME_CHARACTERS:
            yield each.strip()


def _add_text_names(mentions: MentionCounts, text: str, language: str | None) -> None:
    for name, position in find_quoted_names(text, language):
        mentions.add(name, "quoted", position)
    uncertain = _add_capital_names(mentions, text, language)
    for name, position in find_identifiers(text):
        mentions.add(name, "identifier", position)
    for name, position in find_uncased_names(text):
        mentions.add(name, "uncased", position)
    for name, positions in uncertain.items():
        if mentions.contains(name):
            mentions.add(name, "name", positions[0], len(positions))


def _add_capital_names(mentions: MentionCounts, text: str, language: str | None) -> dict[str, list[int]]:
    """Count the certain names in runs of capitalized words, and return the offsets of the others."""
    uncertain: dict[str, list[int]] = {}
    list_names = list_german_names if language == GERMAN else list_run_names
    for run in find_capital_runs(text, language):
        if run.begins_sentence and " " in run.written and mentions.contains(run.written):
            mentions.add(run.written, "name", run.start)
            continue
        for evidence in list_names(run, text, language):
            if evidence.is_certain:
                mentions.add_key(evidence.key_text, evidence.name, "name", run.start)
            else:
                uncertain.setdefault(evidence.name, []).append(run.start)
    return uncertain


def _detect_language(text: str) -> str | None:
    language = identify_language(text)
    return language.name if language is not None else ENGLISH


def is_entity_key(key: str) -> bool:
    """Return whether a normalized name can be an entity: it has a word and is no number."""
    return (len(key) > 1 or _is_whole_word(key)) and not _is_number(key)


def _is_number(key: str) -> bool:
    return key.replace(" ", "").isdigit()


def _is_whole_word(key: str) -> bool:
    """Return whether a single character is a word, as in Chinese."""
    return len(key) == 1 and unicodedata.category(key) == "Lo"


def _clean_name(name: str) -> str:
    if name.isascii() and len(name) <= MAX_NAME_CHARACTERS and "  " not in name and name.isprintable():
        return name.strip()
    return " ".join(normalize_text(name[: 2 * MAX_NAME_CHARACTERS]).split())[:MAX_NAME_CHARACTERS].rstrip()
