"""Schemas of the includes of hits and chunks."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.graph.includes.include import IncludedEntity
from app.ids import encode_id
from app.section_notes.types import Keyword, SectionSummary

NoteMethodOut = Literal["extractive", "model"]


class IncludedEntityOut(BaseModel):
    """Entity that a chunk names."""

    id: str = Field(description="Id of the entity, after corrections.", examples=["ent_9c41f07a"])
    name: str = Field(description="Name as the chunk writes it.", examples=["Stephen Warbeck"])
    kind: str = Field(
        description="Where the chunk names it: `title`, `source`, `heading`, `name`, `identifier`, `quoted`, "
        "`metadata`, `given`, or `typed` for an entity of an extractor.",
        examples=["name"],
    )
    type: str | None = Field(
        description="Type by an extractor or the uploader; null if it is unknown.", examples=["person"]
    )
    count: int = Field(description="Number of times that the chunk names the entity.", examples=[2])


class SectionSummaryOut(BaseModel):
    """Summary of a section above a chunk."""

    node_id: str = Field(description="Id of the section's node.", examples=[example_values.NODE_ID])
    kind: str = Field(description="`document` for the whole document, else `section`.", examples=["section"])
    title: str | None = Field(description="Heading of the section; null without one.", examples=["Parental leave"])
    summary: str = Field(
        description="Summary of the section; empty if the section has no sentences.",
        examples=["Parents may take up to 14 months of parental leave."],
    )
    method: NoteMethodOut = Field(
        description="`extractive`: sentences of the section. `model`: written by a chat model.",
        examples=["extractive"],
    )


class KeywordOut(BaseModel):
    """Keyword of the section of a chunk."""

    keyword: str = Field(description="Word or name of the section.", examples=["parental leave"])
    score: float = Field(description="Weight in the section, from 0 to 1. The best keyword has 1.", examples=[1.0])
    method: NoteMethodOut = Field(
        description="`extractive`: computed from the stored weights of the words. `model`: by a chat model.",
        examples=["extractive"],
    )


class IncludedOut(BaseModel):
    """Fields that `include` adds."""

    entities: list[IncludedEntityOut] | None = Field(
        None,
        description="Entities that the chunk names, most frequent first. Only present with `include` `entities`.",
        exclude_if=lambda items: items is None,
    )
    parent_summaries: list[SectionSummaryOut] | None = Field(
        None,
        description="Summaries of the sections above the chunk, outermost first. Only present with `include` "
        "`parent_summaries`.",
        exclude_if=lambda items: items is None,
    )
    keywords: list[KeywordOut] | None = Field(
        None,
        description="Keywords of the innermost section of the chunk, best first. Only present with `include` "
        "`keywords`.",
        exclude_if=lambda items: items is None,
    )


def to_included_fields(included: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the fields of the loaded includes.

    Args:
        included: Items by the name of the include.
    """
    return {name: [_to_item_out(item) for item in items] for name, items in included.items()}


def _to_item_out(item: IncludedEntity | SectionSummary | Keyword) -> BaseModel:
    match item:
        case IncludedEntity():
            return IncludedEntityOut(id=item.id, name=item.name, kind=item.kind, type=item.type, count=item.count)
        case SectionSummary():
            return SectionSummaryOut(
                node_id=encode_id("nod", item.node_id),
                kind=item.kind,
                title=item.title,
                summary=item.summary,
                method=item.method,
            )
        case Keyword():
            return KeywordOut(keyword=item.keyword, score=item.score, method=item.method)
