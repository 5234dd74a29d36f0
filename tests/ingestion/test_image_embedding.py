"""Image embeddings: found by a text of the same meaning, paid once, and a warning on failure."""

import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.embedded_postgres import DatabaseUrls
from app.inference.embedding import EmbeddingMismatch, EmbeddingUnavailable
from app.ingestion.images.description import MAX_FAILURES
from app.ingestion.images.image_embedding import MAX_SLICE_IMAGES
from app.ingestion.preview.service import PreviewOptions
from app.retrieval.types import Hit, SearchRequest
from harness.protocol_servers.chat import ChatServer, ReceivedVisionRequest, describe_colour
from harness.protocol_servers.embedding import IMAGE_TOKENS
from tests.ingestion import illustrated
from tests.ingestion.test_image_description import chunks, media_keys, warnings
from tests.ingestion.workshop import Workshop, open_workshop, upload

LONG = " ".join(f"Sentence number {number} of many." for number in range(60))


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    """Workshop with an embedding model that accepts images, without image descriptions."""
    embedding = {"CARREL_EMBEDDING_IMAGES": "input"}
    async with open_workshop(database, tmp_path_factory.mktemp("data"), embedding=embedding) as opened:
        opened.endpoint.image_form = "input"
        yield opened


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture(scope="module")
async def talkative(
    database: DatabaseUrls, chat: ChatServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    """Workshop with an embedding model that accepts images, and with image descriptions."""
    embedding = {"CARREL_EMBEDDING_IMAGES": "messages"}
    data_dir = tmp_path_factory.mktemp("data")
    async with open_workshop(database, data_dir, models=chat.vision_settings, embedding=embedding) as opened:
        opened.endpoint.image_form = "messages"
        yield opened


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    """Services of a new tenant; at the end the tables must be consistent."""
    workshop.endpoint.reset()
    yield await workshop.new_tenant()
    workshop.endpoint.reset()
    workshop.endpoint.refused_word = None
    await workshop.end_whole()


@pytest.fixture
async def others(talkative: Workshop, chat: ChatServer) -> AsyncIterator[TenantServices]:
    """Services of a new tenant in the workshop with image descriptions."""
    chat.reset()
    chat.describe_image = describe_colour
    talkative.endpoint.reset()
    yield await talkative.new_tenant()
    talkative.endpoint.refused_word = None
    await talkative.end_whole()


async def found(services: TenantServices, query: str, strategy: str = "dense") -> list[Hit]:
    return list((await services.retrieval.search(SearchRequest(queries=[query], strategy=strategy))).hits)


def sent(workshop: Workshop) -> list[str]:
    """Return the colours of the images that the endpoint received."""
    return [colour for request in workshop.endpoint.received if request.images for colour in request.inputs]


async def spent(workshop: Workshop, services: TenantServices) -> tuple[int, int]:
    row = await workshop.owner.fetchrow(
        "select inputs, tokens from embedding_usage where model = 'words' and tenant_id = $1",
        services.principal.tenant_id,
    )
    return (row["inputs"], row["tokens"]) if row else (0, 0)


async def checkpoints(workshop: Workshop, services: TenantServices) -> int:
    count: int = await workshop.owner.fetchval(
        "select count(*) from embedding_checkpoint where tenant_id = $1", services.principal.tenant_id
    )
    return count


def many(path: Path, count: int) -> Path:
    """Write a document with a few words and ``count`` images."""
    document = illustrated.WORD.Document()
    document.add_paragraph("Only these words.")
    for number in range(count):
        document.add_picture(io.BytesIO(illustrated.square("red", (100 + number, 100))))
    document.save(str(path))
    return path


@pytest.mark.capability("image-embedded")
async def test_text_query_finds_embedded_image(workshop: Workshop, services: TenantServices, tmp_path: Path) -> None:
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)
    for colour, page, section in (("red", 1, "Harbours"), ("blue", 2, "Rivers")):
        best = (await found(services, colour))[0].chunk
        assert (best.media_type, best.page, best.section_titles) == ("image/png", page, [section])
    assert len(await media_keys(workshop, document)) == 2
    assert await warnings(workshop, document) == "[]"
    shown = [row for row in await chunks(workshop, document) if row["image_ordinal"] is not None]
    assert [row["content"] for row in shown] == ["Picture 1", "Picture 2"]
    # The words around the image find it too.
    assert shown[0]["id"] in {hit.chunk.id for hit in await found(services, "harbours", "lexical")}
    assert sent(workshop) == ["red", "blue"]
    assert (await spent(workshop, services))[1] > 2 * IMAGE_TOKENS
    assert await checkpoints(workshop, services) == 0


async def test_document_of_one_image_is_embedded(workshop: Workshop, services: TenantServices, tmp_path: Path) -> None:
    path = tmp_path / "scan.png"
    path.write_bytes(illustrated.square("green"))
    await workshop.ingest(await upload(services, path))
    (only,) = await found(services, "green")
    assert (only.chunk.image_ordinal, only.chunk.media_type) == (0, "image/png")
    assert await spent(workshop, services) == (1, IMAGE_TOKENS)


async def test_image_vectors_survive_failed_ingestion(
    workshop: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    workshop.endpoint.fail("slow", seconds=0.0)  # images are accepted
    workshop.endpoint.fail(503, times=None, retry_after="500")
    with pytest.raises(EmbeddingUnavailable):
        await workshop.ingest(document)
    assert await checkpoints(workshop, services) == 2
    workshop.endpoint.reset()
    await workshop.ingest(document)
    assert sent(workshop) == []
    assert (await found(services, "blue"))[0].chunk.media_type == "image/png"
    assert await checkpoints(workshop, services) == 0
    # Another tenant pays for its embeddings.
    stranger = await workshop.new_tenant()
    await workshop.ingest(await upload(stranger, illustrated.pdf(tmp_path / "two.pdf")))
    assert sent(workshop) == ["red", "blue"]


async def test_refused_image_is_warning(workshop: Workshop, services: TenantServices, tmp_path: Path) -> None:
    workshop.endpoint.refused_word = "blue"
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)
    assert "did not embed 1 of 2 images" in await warnings(workshop, document)
    assert (await found(services, "red"))[0].chunk.media_type == "image/png"
    hits = await found(services, "rivers", "lexical")
    assert "image/png" in {hit.chunk.media_type for hit in hits}
    assert len(await media_keys(workshop, document)) == 2


async def test_model_that_refuses_images_gets_no_more_calls(
    workshop: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    workshop.endpoint.refused_word = "red"
    count = MAX_SLICE_IMAGES + MAX_FAILURES
    document = await upload(services, many(tmp_path / "many.docx", count))
    await workshop.ingest(document)
    assert f"did not embed {count} of {count} images" in await warnings(workshop, document)
    tried = {data for request in workshop.endpoint.received for data in request.images}
    assert len(tried) == MAX_SLICE_IMAGES
    assert await workshop.status(document.id) == "ready"


@pytest.mark.parametrize(("how", "error"), [("dimension", EmbeddingMismatch), (503, EmbeddingUnavailable)])
async def test_other_image_failures_fail_document(
    workshop: Workshop, services: TenantServices, tmp_path: Path, how: Any, error: type[Exception]
) -> None:
    workshop.endpoint.fail(how, retry_after="500")
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    with pytest.raises(error):
        await workshop.ingest(document)
    assert await workshop.status(document.id) == "embedding"
    await workshop.ingest(document)
    assert await workshop.status(document.id) == "ready"


async def test_preview_counts_images_without_embedding(
    workshop: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    path = illustrated.pdf(tmp_path / "two.pdf")

    async def body() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="two.pdf"\r\n\r\n'
        yield path.read_bytes() + b"\r\n--b--\r\n"

    made = await services.preview.preview_upload(body(), b"b", lambda _: PreviewOptions())
    assert (made.quality.images, made.warnings) == (2, [])
    assert [draft.text for draft in made.drafts if draft.text.startswith("Picture")] == ["Picture 1", "Picture 2"]
    assert sent(workshop) == []


async def test_image_is_described_and_embedded(talkative: Workshop, others: TenantServices, tmp_path: Path) -> None:
    document = await upload(others, illustrated.pdf(tmp_path / "two.pdf"))
    await talkative.ingest(document)
    best = (await found(others, "blue"))[0].chunk
    assert best.content == "A blue square of 200 by 150 dots."
    assert (await found(others, "square", "lexical"))[0].chunk.media_type == "image/png"
    assert sent(talkative) == ["red", "blue"]


async def test_image_without_description_is_embedded(
    talkative: Workshop, others: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    chat.fail(400, times=2)
    document = await upload(others, illustrated.pdf(tmp_path / "two.pdf"))
    await talkative.ingest(document)
    assert "2 images were not described. " in await warnings(talkative, document)
    assert (await found(others, "red"))[0].chunk.content == "Picture 1"


async def test_long_description_first_chunk_is_image(
    talkative: Workshop, others: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    def say(_: ReceivedVisionRequest) -> str:
        return LONG

    chat.describe_image = say
    path = tmp_path / "red.png"
    path.write_bytes(illustrated.square("red"))
    document: DocumentRow = await upload(others, path)
    await talkative.ingest(document)
    rows = await chunks(talkative, document)
    assert len(rows) > 1
    assert {row["image_ordinal"] for row in rows} == {0}
    assert (await found(others, "red"))[0].chunk.id == rows[0]["id"]
    texts = [text for one in talkative.endpoint.received if not one.images for text in one.inputs]
    assert sum("Sentence" in text for text in texts) == len(rows) - 1
