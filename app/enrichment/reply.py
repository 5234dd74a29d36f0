"""Replies of the chat model: their shape, their limits, and the check of names and evidence against the text."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, Field, create_model

from app.documents.context_lines import MAX_LINE_CHARACTERS, ContextLine
from app.documents.provided_graph import MAX_PREDICATE_CHARACTERS
from app.enrichment.types import FoundEntity, FoundRelation, SectionReply
from app.graph.extraction.names import normalize_name
from app.graph.extraction.types import MAX_NAME_CHARACTERS
from app.inference.chat.structured_output import INSTRUCTION_SEPARATOR, build_instruction
from app.text_normalization import normalize_text

MAX_SUMMARY_CHARACTERS = 1_200
MAX_KEYWORDS, MAX_KEYWORD_CHARACTERS = 12, 80
MAX_ENTITIES, MAX_TYPE_CHARACTERS = 40, 32
MAX_RELATIONS, MAX_EVIDENCE_CHARACTERS = 30, 600
DEFAULT_TYPE = "entity"


class EntityReply(BaseModel):
    """An entity in a reply."""

    name: str
    type: str = DEFAULT_TYPE
    score: float = 0.5


class RelationReply(BaseModel):
    """A relation in a reply."""

    subject: str
    predicate: str
    object: str
    evidence: str


class ContextLineReply(BaseModel):
    """A context line in a reply, with the number of its passage."""

    passage: int
    line: str


_FIELDS: dict[str, tuple[str, Any]] = {
    "summaries": ("summary", (str, Field(min_length=1))),
    "keywords": ("keywords", (list[str], ...)),
    "entities": ("entities", (list[EntityReply], ...)),
    "relations": ("relations", (list[RelationReply], ...)),
    "context_lines": ("context_lines", (list[ContextLineReply], ...)),
}


@lru_cache(maxsize=32)
def build_shape(parts: tuple[str, ...]) -> type[BaseModel]:
    """Return the Pydantic model of a reply with the wanted parts."""
    return create_model("SectionEnrichment", **dict(_FIELDS[part] for part in parts))


@lru_cache(maxsize=32)
def build_shape_instruction(parts: tuple[str, ...]) -> str:
    """Return the text about the shape of a reply that a call adds to its instruction, for counts of tokens."""
    return INSTRUCTION_SEPARATOR + build_instruction(build_shape(parts))


def check_reply(value: BaseModel, text: str, passages: Sequence[tuple[int, int]] = ()) -> SectionReply:
    """Return a reply within its limits, without names and evidence that the text does not contain.

    Args:
        value: Reply of the model.
        text: Text that the call read.
        passages: Ranges of the passages that context lines are wanted for.
    """
    data = value.model_dump()
    raw_entities, raw_relations = data.get("entities", []), data.get("relations", [])
    collapsed = join_words(text)
    entities = _list_entities(raw_entities[:MAX_ENTITIES], text)
    relations = _list_relations(raw_relations[:MAX_RELATIONS], text, collapsed)
    keywords = dict.fromkeys(filter(None, (_clean(word, MAX_KEYWORD_CHARACTERS) for word in data.get("keywords", []))))
    return SectionReply(
        summary=_clean(data.get("summary", ""), MAX_SUMMARY_CHARACTERS),
        keywords=tuple(keywords)[:MAX_KEYWORDS],
        entities=entities,
        relations=relations,
        dropped=len(raw_entities) - len(entities) + len(raw_relations) - len(relations),
        lines=_list_lines(data.get("context_lines", []), passages),
    )


def _list_lines(items: Sequence[dict[str, Any]], passages: Sequence[tuple[int, int]]) -> tuple[ContextLine, ...]:
    """Return the lines of known passages, one for each passage."""
    lines: dict[int, ContextLine] = {}
    for item in items:
        number, line = item["passage"], _clean(item["line"], MAX_LINE_CHARACTERS)
        if 1 <= number <= len(passages) and line:
            start, end = passages[number - 1]
            lines.setdefault(number, ContextLine(start, end, line))
    return tuple(lines[number] for number in sorted(lines))


def join_words(text: str) -> str:
    """Return a text with one space in place of each run of white space."""
    return " ".join(text.split())


def contains_name(text: str, name: str) -> bool:
    """Return whether a text contains a name that is no part of a longer word."""
    return count_name(text, name, limit=1) > 0


def count_name(text: str, name: str, *, limit: int = 1_000) -> int:
    """Return how often a text contains a name that is no part of a longer word, up to a limit."""
    count, position = 0, text.find(name)
    while position >= 0 and count < limit:
        end = position + len(name)
        before, after = text[position - 1 : position], text[end : end + 1]
        count += not (_is_joined(before, name[:1]) or _is_joined(name[-1:], after))
        position = text.find(name, end)
    return count


def _is_joined(first: str, second: str) -> bool:
    """Return whether two neighbours belong to one word. Scripts without capitals have no gaps between words."""
    return _is_word_character(first) and _is_word_character(second)


def _is_word_character(character: str) -> bool:
    return character.isdigit() or character.lower() != character.upper()


def _list_entities(items: Sequence[dict[str, Any]], text: str) -> tuple[FoundEntity, ...]:
    entities: dict[str, FoundEntity] = {}
    for item in items:
        name = item["name"].strip()
        key_text = _to_key_text(name, text)
        if key_text and key_text not in entities:
            kind = "_".join(_clean(item["type"], MAX_TYPE_CHARACTERS).lower().split()) or DEFAULT_TYPE
            score = min(1.0, max(0.0, item["score"])) if item["score"] == item["score"] else 0.0
            entities[key_text] = FoundEntity(name, kind, round(score, 3))
    return tuple(entities.values())


def _list_relations(items: Sequence[dict[str, Any]], text: str, collapsed: str) -> tuple[FoundRelation, ...]:
    relations: dict[tuple[str, str, str], FoundRelation] = {}
    for item in items:
        subject, object_ = item["subject"].strip(), item["object"].strip()
        ends = _to_key_text(subject, text), _to_key_text(object_, text)
        predicate = _clean(item["predicate"], MAX_PREDICATE_CHARACTERS)
        evidence = join_words(item["evidence"])
        is_found = 0 < len(evidence) <= MAX_EVIDENCE_CHARACTERS and evidence in collapsed
        if all(ends) and ends[0] != ends[1] and predicate and is_found:
            relation = FoundRelation(subject, predicate, object_, evidence)
            relations.setdefault((ends[0], predicate, ends[1]), relation)
    return tuple(relations.values())


def _to_key_text(name: str, text: str) -> str:
    """Return the normalized form of a name that the text contains, or an empty text."""
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not contains_name(text, name):
        return ""
    return normalize_name(name)


def _clean(text: str, max_characters: int) -> str:
    """Return a text as stored texts are: normalized, in one line, at most ``max_characters`` long."""
    return join_words(normalize_text(text[: 2 * max_characters]))[:max_characters].strip()


def to_stored_reply(reply: SectionReply) -> dict[str, Any]:
    """Return the JSON form of a reply."""
    return asdict(reply)


def parse_stored_reply(stored: dict[str, Any]) -> SectionReply:
    """Return the reply of the JSON form."""
    return SectionReply(
        summary=stored["summary"],
        keywords=tuple(stored["keywords"]),
        entities=tuple(FoundEntity(**entity) for entity in stored["entities"]),
        relations=tuple(FoundRelation(**relation) for relation in stored["relations"]),
        dropped=stored["dropped"],
        is_skipped=stored["is_skipped"],
        lines=tuple(ContextLine(**line) for line in stored.get("lines", ())),
    )


def list_summaries(replies: Iterable[SectionReply]) -> list[str]:
    """Return the summaries of replies that have one."""
    return [reply.summary for reply in replies if reply.summary]
