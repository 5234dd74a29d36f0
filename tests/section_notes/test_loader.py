"""Notes of the sections above chunks, from the stored vectors and BM25 weights of uploaded documents."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from app.db.driver import DriverReader
from app.db.session import Database
from app.db.statements import parse_statement
from app.ids import decode_id
from app.section_notes.loader import load_keywords, load_parent_summaries
from app.section_notes.types import Keyword, SectionedChunk, SectionSummary
from harness.running_service import Tenant

OWLS = " ".join(f"The owl number {number} hunts mice at night in the old barn." for number in range(40))
DUCKS = " ".join(f"The duck number {number} swims on the pond near the mill." for number in range(40))
TEXT = f"# Birds\n\nThis handbook is about the birds of the farm.\n\n## Owls\n\n{OWLS}\n\n## Ducks\n\n{DUCKS}\n"
CHUNKS = parse_statement("""
select tenant_id, index_id, id, document_id, version, node_path, content from chunk
 where tenant_id = :t order by document_id, ordinal""")

Notes = list[tuple[str, list[SectionSummary], list[Keyword]]]


def read_notes(tenant: Tenant, *, reader_id: UUID | None = None) -> Notes:
    """Return each chunk's text with its summaries and keywords, as another tenant if ``reader_id`` is given."""
    tenant_id = decode_id("ten", tenant.id)
    assert tenant_id is not None

    async def load(reader: DriverReader, chunks: list[SectionedChunk]) -> tuple[Any, Any]:
        return await load_parent_summaries(reader, chunks), await load_keywords(reader, chunks)

    async def run() -> Notes:
        database = Database.connect(tenant.service.urls.app, pool_size=1)
        try:
            async with database.read_transaction(tenant_id) as reader:
                rows = await reader.fetch_rows(CHUNKS, {"t": tenant_id})
            chunks = [SectionedChunk(row[0], row[1], row[2], row[3], row[4], tuple(row[5])) for row in rows]
            async with database.read_transaction(reader_id or tenant_id) as reader:
                summaries, keywords = await load(reader, chunks)
            return [
                (row["content"], list(summaries.get(chunk, ())), list(keywords.get(chunk, ())))
                for row, chunk in zip(rows, chunks, strict=True)
            ]
        finally:
            await database.close()

    return asyncio.run(run())


@pytest.fixture
def notes(tenant: Tenant) -> Notes:
    tenant.add_text(TEXT, media_type="text/markdown")
    return read_notes(tenant)


@pytest.mark.capability("summary-sections")
def test_summaries_of_chunk_list_its_sections_outermost_first(notes: Notes) -> None:
    for content, summaries, _ in notes:
        titles = [summary.title for summary in summaries if summary.kind == "section"]
        if "owl number" in content:
            assert titles == ["Birds", "Owls"]
        assert summaries[0].kind == "document"
        assert {summary.method for summary in summaries} == {"extractive"}


def test_summary_of_section_has_whole_sentences_of_the_section(notes: Notes) -> None:
    owls = next(summary for _, summaries, _ in notes for summary in summaries if summary.title == "Owls")
    assert owls.summary
    assert all(f"{sentence.strip('. ')}." in OWLS for sentence in owls.summary.split(". "))


def test_summary_of_section_is_equal_for_all_its_chunks(notes: Notes) -> None:
    texts = {summary.summary for _, summaries, _ in notes for summary in summaries if summary.title == "Ducks"}
    assert len(texts) == 1


def test_keywords_of_chunk_are_words_of_its_section(notes: Notes) -> None:
    for content, _, keywords in notes:
        if "duck number" in content:
            assert keywords[0].score == 1.0
            words = {word.keyword.lower() for word in keywords}
            assert words & {"duck", "swims", "pond", "mill"}
            assert not words & {"owl", "barn", "mice"}


def test_notes_of_plain_text_without_headings_describe_the_document(tenant: Tenant) -> None:
    tenant.add_text("The lighthouse keeper writes long letters to the harbour. Nobody answers the letters in time.")
    ((_, summaries, keywords),) = read_notes(tenant)
    assert [summary.kind for summary in summaries] == ["document"]
    assert summaries[0].summary
    assert keywords


def test_notes_of_deleted_document_vanish(tenant: Tenant) -> None:
    document = tenant.add_text(TEXT, media_type="text/markdown")
    assert read_notes(tenant)
    tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{document['id']}").raise_for_status()
    assert read_notes(tenant) == []


def test_notes_of_other_tenant_are_empty(tenant: Tenant) -> None:
    tenant.add_text(TEXT, media_type="text/markdown")
    other = decode_id("ten", tenant.service.create_tenant("other").id)
    assert all((summaries, keywords) == ([], []) for _, summaries, keywords in read_notes(tenant, reader_id=other))
