"""Images in the next generation of a search index: not described again, but embedded by its model."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.embedded_postgres import DatabaseUrls
from app.inference.embedding import EmbeddingUnavailable
from app.ingestion.images.description import MAX_FAILURES
from app.ingestion.images.image_embedding import MAX_SLICE_IMAGES
from app.ingestion.parsers.toolkit.image_transport import MAX_IMAGE_BYTES
from app.knowledge_bases.types import Chunking, ReindexOptions
from app.object_store import ObjectStore, ObjectStoreUnavailable
from app.object_store.s3 import S3ObjectStore
from app.worker.handlers import JobContext
from harness.protocol_servers.chat import ChatServer, ReceivedVisionRequest, describe_colour
from harness.protocol_servers.embedding import IMAGE_TOKENS, EmbeddingServer
from tests.ingestion import illustrated
from tests.ingestion.test_image_embedding import LONG, checkpoints, found, many
from tests.ingestion.workshop import Workshop, open_workshop, upload

CUT = Chunking("sentence", 24, 0)


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture(scope="module")
def seeing() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dimensions=48, image_form="messages") as running:
        yield running


@pytest.fixture(scope="module")
def blind() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dimensions=32) as running:
        yield running


@pytest.fixture(scope="module")
def further(seeing: EmbeddingServer, blind: EmbeddingServer) -> str:
    """Settings of the further embedding models."""
    made = [
        {"model": name, "base_url": server.base_url, "dimensions": server.dimensions, "max_tokens": 64}
        for name, server in (("seeing", seeing), ("blind", blind))
    ]
    return json.dumps([{**made[0], "images": "messages"}, made[1]])


@pytest.fixture(scope="module")
async def described(
    database: DatabaseUrls, chat: ChatServer, further: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    """Workshop with image descriptions, whose default embedding model accepts no images."""
    embedding = {"CARREL_EMBEDDING_MODELS": further}
    data = tmp_path_factory.mktemp("data")
    async with open_workshop(database, data, models=chat.vision_settings, embedding=embedding) as opened:
        yield opened


@pytest.fixture(scope="module")
async def seen(
    database: DatabaseUrls, further: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    """Workshop without image descriptions, whose default embedding model accepts images."""
    embedding = {"CARREL_EMBEDDING_IMAGES": "input", "CARREL_EMBEDDING_MODELS": further}
    async with open_workshop(database, tmp_path_factory.mktemp("data"), embedding=embedding) as opened:
        opened.endpoint.image_form = "input"
        yield opened


@pytest.fixture
async def services(seen: Workshop, seeing: EmbeddingServer, blind: EmbeddingServer) -> AsyncIterator[TenantServices]:
    """Services of a new tenant; at the end the tables must be consistent."""
    for server in (seen.endpoint, seeing, blind):
        server.reset()
    yield await seen.new_tenant()
    seeing.reset()
    seeing.refused_word = None
    await seen.end_whole()


@pytest.fixture
async def others(described: Workshop, chat: ChatServer) -> AsyncIterator[TenantServices]:
    """Services of a new tenant in the workshop with image descriptions."""
    chat.reset()
    chat.describe_image = describe_colour
    yield await described.new_tenant()
    await described.end_whole()


async def two_images(workshop: Workshop, services: TenantServices, folder: Path) -> DocumentRow:
    """Ingest and return a document with a red and a blue image."""
    document = await upload(services, illustrated.pdf(folder / "two.pdf"))
    await workshop.ingest(document)
    return document


async def work(workshop: Workshop, services: TenantServices, *, objects: ObjectStore | None = None) -> None:
    """Run the job of the generation as the worker does, optionally with another object store."""
    tenant_id = services.principal.tenant_id
    row = await workshop.owner.fetchrow(
        "select * from search_index where tenant_id = $1 and state = 'building'", tenant_id
    )
    db = TenantDatabase(workshop.resources.database, tenant_id)
    resources = replace(workshop.resources, objects=objects or workshop.resources.objects)
    await JobContext(resources, workshop.pipeline).reindexer.run_slice(db, row["id"], row["job_id"])
    assert await live(services) == row["id"]


async def reindex(workshop: Workshop, services: TenantServices, **wishes: Any) -> None:
    await services.reindexing.start("default", ReindexOptions(**{"chunking": CUT, **wishes}))
    await work(workshop, services)


async def live(services: TenantServices) -> UUID:
    return (await services.knowledge_bases.find("default")).index.id


async def shown(workshop: Workshop, index_id: UUID) -> list[tuple[object, ...]]:
    rows = await workshop.owner.fetch(
        "select content, image_ordinal, media_type, page from chunk"
        " where index_id = $1 and image_ordinal is not null order by ordinal", index_id,
    )  # fmt: skip
    return [tuple(row) for row in rows]


async def seen_as(services: TenantServices, colour: str) -> bool:
    """Return whether a query finds an image with the vector of this colour."""
    best = (await found(services, colour))[0]
    return best.chunk.media_type == "image/png" and best.similarity == pytest.approx(1.0, abs=2e-3)


@asynccontextmanager
async def silent_store() -> AsyncIterator[ObjectStore]:
    """Open an object store whose address does not answer."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        store = S3ObjectStore("none", endpoint_url=url, access_key_id="id", secret_access_key="secret", region=None)
        yield store
        await store.close()


async def keys(workshop: Workshop, document: DocumentRow) -> list[str]:
    """Return the keys of a document's images, the red one first."""
    rows = await workshop.owner.fetch(
        "select key from document_image where document_id = $1 order by ordinal", document.id
    )
    return [row["key"] for row in rows]


def colours(server: EmbeddingServer) -> list[str]:
    """Return the colours of the images that a model received."""
    return [colour for request in server.received if request.images for colour in request.inputs]


async def test_reindex_image_chunks_stay_image_chunks(
    described: Workshop, others: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    await two_images(described, others, tmp_path)
    before, looked = await live(others), len(chat.received)
    for _ in range(2):  # the second time from the first reindexing's result
        await reindex(described, others)
        assert await shown(described, await live(others)) == await shown(described, before)
    assert len(await shown(described, before)) == 2
    assert len(chat.received) == looked


async def test_reindex_with_same_model_reuses_image_vectors(
    seen: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    await two_images(seen, services, tmp_path)
    seen.endpoint.reset()
    await reindex(seen, services)
    assert [await seen_as(services, colour) for colour in ("red", "blue")] == [True, True]
    assert colours(seen.endpoint) == ["red", "blue"]
    assert await checkpoints(seen, services) == 0


async def test_reindex_with_other_model_embeds_images(
    seen: Workshop, services: TenantServices, seeing: EmbeddingServer, tmp_path: Path
) -> None:
    await two_images(seen, services, tmp_path)
    seen.endpoint.reset()
    await reindex(seen, services, model="seeing")
    assert [await seen_as(services, colour) for colour in ("red", "blue")] == [True, True]
    assert (colours(seen.endpoint), colours(seeing)) == ([], ["red", "blue"])
    assert await checkpoints(seen, services) == 0
    tokens = await seen.owner.fetchval(
        "select tokens from embedding_usage where model = 'seeing' and tenant_id = $1", services.principal.tenant_id
    )
    assert tokens > 2 * IMAGE_TOKENS


async def test_reindex_during_upload_embeds_images_with_both_models(
    seen: Workshop, services: TenantServices, seeing: EmbeddingServer, tmp_path: Path
) -> None:
    await services.reindexing.start("default", ReindexOptions(model="seeing", chunking=CUT))
    await two_images(seen, services, tmp_path)
    assert await seen_as(services, "red")
    assert (colours(seen.endpoint), colours(seeing)) == (["red", "blue"], ["red", "blue"])
    await work(seen, services)
    assert await seen_as(services, "red")


async def test_reindex_embeds_images_that_were_only_described(
    described: Workshop, others: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    def say(_: ReceivedVisionRequest) -> str:
        return LONG

    chat.describe_image = say
    await two_images(described, others, tmp_path)
    assert not await seen_as(others, "red")
    await reindex(described, others, model="seeing")
    assert [await seen_as(others, colour) for colour in ("red", "blue")] == [True, True]
    # The first of several chunks of one image is its image embedding, the others are words.
    assert len(await shown(described, await live(others))) > 2
    assert (await found(others, "Sentence number 59 of many"))[0].chunk.content.endswith("number 59 of many.")


async def test_reindex_to_model_without_images_embeds_their_words(
    seen: Workshop, services: TenantServices, blind: EmbeddingServer, tmp_path: Path
) -> None:
    await two_images(seen, services, tmp_path)
    await reindex(seen, services, model="blind")
    assert colours(blind) == []
    assert not await seen_as(services, "red")
    assert "image/png" in {hit.chunk.media_type for hit in await found(services, "picture 1")}
    # A return to a model with images is possible, because the images are stored.
    await reindex(seen, services, model="seeing")
    assert await seen_as(services, "red")


async def test_reindex_image_with_missing_bytes_is_found_by_words(
    seen: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    red, _ = await keys(seen, await two_images(seen, services, tmp_path))
    await seen.resources.objects.delete(red)
    await reindex(seen, services)
    assert [await seen_as(services, colour) for colour in ("red", "blue")] == [False, True]
    assert "image/png" in {hit.chunk.media_type for hit in await found(services, "harbours", "lexical")}


async def test_reindex_missing_images_do_not_count_as_refusals(
    seen: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    document = await upload(services, many(tmp_path / "many.docx", MAX_SLICE_IMAGES + 1))
    await seen.ingest(document)
    for key in (await keys(seen, document))[:MAX_FAILURES]:
        await seen.resources.objects.delete(key)
    seen.endpoint.reset()
    await reindex(seen, services)
    assert len(colours(seen.endpoint)) == MAX_SLICE_IMAGES + 1 - MAX_FAILURES


async def test_reindex_waits_for_unavailable_object_store(
    seen: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    await two_images(seen, services, tmp_path)
    await services.reindexing.start("default", ReindexOptions(chunking=CUT))
    async with silent_store() as silent:
        with pytest.raises(ObjectStoreUnavailable):
            await work(seen, services, objects=silent)
    await work(seen, services)
    assert [await seen_as(services, colour) for colour in ("red", "blue")] == [True, True]


async def test_reindex_image_with_changed_bytes_is_found_by_words(
    seen: Workshop, services: TenantServices, tmp_path: Path
) -> None:
    red, _ = await keys(seen, await two_images(seen, services, tmp_path))
    other = tmp_path / "other.png"
    other.write_bytes(illustrated.square("green"))
    await seen.resources.objects.put(red, other)
    seen.endpoint.reset()
    await reindex(seen, services)
    assert colours(seen.endpoint) == ["blue"]
    assert not await seen_as(services, "green")


async def test_reindex_too_large_image_is_not_read(seen: Workshop, services: TenantServices, tmp_path: Path) -> None:
    document = await two_images(seen, services, tmp_path)
    await seen.owner.execute(  # as in an imported archive
        "update document_image set bytes = $1 where document_id = $2 and ordinal = 0",
        MAX_IMAGE_BYTES + 1, document.id,
    )  # fmt: skip
    seen.endpoint.reset()
    await reindex(seen, services)
    assert colours(seen.endpoint) == ["blue"]


async def test_reindex_refused_image_is_found_by_words(
    seen: Workshop, services: TenantServices, seeing: EmbeddingServer, tmp_path: Path
) -> None:
    await two_images(seen, services, tmp_path)
    seeing.refused_word = "red"
    await reindex(seen, services, model="seeing")
    seeing.refused_word = None
    assert [await seen_as(services, colour) for colour in ("red", "blue")] == [False, True]
    assert "image/png" in {hit.chunk.media_type for hit in await found(services, "harbours", "lexical")}


async def test_reindex_resumed_does_not_embed_images_again(
    seen: Workshop, services: TenantServices, seeing: EmbeddingServer, tmp_path: Path
) -> None:
    await two_images(seen, services, tmp_path)
    seeing.fail("slow", times=2, seconds=0.0)  # images are accepted
    seeing.fail(503, times=None, retry_after="500")
    with pytest.raises(EmbeddingUnavailable):
        await reindex(seen, services, model="seeing")
    assert await checkpoints(seen, services) == 2
    seeing.reset()
    await work(seen, services)
    assert colours(seeing) == []
    assert [await seen_as(services, colour) for colour in ("red", "blue")] == [True, True]
    assert await checkpoints(seen, services) == 0
