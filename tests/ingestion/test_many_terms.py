"""A chunk with too many different terms: one report with the chunk's index, before any model call."""

import json
from collections.abc import Sequence

from app.documents.types import DocumentFields, ProvidedChunk
from app.lexical.weights import MAX_TERMS
from harness.running_service import Service
from tests.ingestion.workshop import Workshop

VECTOR = [1.0] * 64


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


async def put(workshop: Workshop, chunks: Sequence[ProvidedChunk]) -> tuple[str, str | None]:
    """Ingest a document of these chunks; return its status and its error."""
    services = await workshop.new_tenant()
    workshop.endpoint.reset()
    document = (await services.uploads.upload_chunks("default", chunks, DocumentFields())).document
    async with workshop.working():
        await workshop.settled(document.id)
    row = await workshop.document(document.id)
    return row["status"], row["error"]


async def test_chunk_with_maximum_terms_is_stored(workshop: Workshop) -> None:
    assert await put(workshop, [ProvidedChunk(words(MAX_TERMS), vector=VECTOR)]) == ("ready", None)
    stored = await workshop.owner.fetchval("select max(cardinality(keys)) from chunk_lexical")
    assert stored == MAX_TERMS


async def test_chunk_above_maximum_terms_fails_document_before_embedding(workshop: Workshop) -> None:
    chunks = [ProvidedChunk("An otter."), ProvidedChunk(words(MAX_TERMS + 1), vector=VECTOR)]
    status, error = await put(workshop, chunks)
    assert status == "failed"
    told = json.loads(error or "")
    assert (told["code"], told["retryable"]) == ("too_large", False)
    assert "The chunk at index 1 has 16,001 different terms" in told["message"]
    assert workshop.endpoint.received == []
    attempts = await workshop.owner.fetch("select attempts from job where kind = 'ingest_document' and state = 'dead'")
    assert [row["attempts"] for row in attempts] == [1]


def test_chunk_of_one_token_with_too_many_terms_fails_document(service: Service) -> None:
    """Chunkers count tokens, and WordPiece counts one token for a word that is too long."""
    text = "".join(chr(0xAC00 + number) for number in (*range(11_172), *range(0, 11_172, 2)))
    tenant = service.create_tenant("terms")
    url = "/v1/knowledge-bases/default/documents"
    document = tenant.admin.post(url, params={"wait": 60}, json={"text": text}).json()
    assert (document["status"], document["error"]["code"]) == ("failed", "too_large"), document
    assert "index 0" in document["error"]["message"]
