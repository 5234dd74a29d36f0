"""Schema of the place of a text in its file."""

from typing import Any

from pydantic import BaseModel, Field

from app.documents.locator import Locator


def _is_missing(value: Any) -> bool:
    return value is None or value == []


class LocatorOut(BaseModel):
    """Place of a text in its file. A field is absent if the format has no such place, or if it is not known."""

    page: int | None = Field(None, description="First page, from 1.", examples=[4], exclude_if=_is_missing)
    page_end: int | None = Field(None, description="Last page, from 1.", examples=[5], exclude_if=_is_missing)
    slide: int | None = Field(None, description="Slide, from 1.", examples=[6], exclude_if=_is_missing)
    lines: tuple[int, int] | None = Field(
        None,
        description="First and last line of the file, from 1. Plain text, Markdown and source code have lines.",
        examples=[[12, 19]],
        exclude_if=_is_missing,
    )
    sheet: str | None = Field(
        None, description="Name of the sheet of a workbook.", examples=["Parts"], exclude_if=_is_missing
    )
    rows: tuple[int, int] | None = Field(
        None,
        description="First and last row of the sheet or CSV file, from 1. Captions and column names do not count.",
        examples=[[31, 35]],
        exclude_if=_is_missing,
    )
    section_path: list[str] = Field(
        default_factory=list,
        description="Headings above the text, outermost first.",
        examples=[["Leave", "Parental leave"]],
        exclude_if=_is_missing,
    )
    url: str | None = Field(
        None,
        description="Web address of the document, from `source_uri`.",
        examples=["https://intranet.example.com/handbook.pdf"],
        exclude_if=_is_missing,
    )


def to_locator_out(locator: Locator) -> LocatorOut:
    """Convert a locator to its schema."""
    return LocatorOut(
        page=locator.page,
        page_end=locator.page_end,
        slide=locator.slide,
        lines=locator.lines,
        sheet=locator.sheet,
        rows=locator.rows,
        section_path=list(locator.section_path),
        url=locator.url,
    )
