"""Image descriptions in the pipeline: described once, stored next to the original, replaced and swept with it."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.embedded_postgres import DatabaseUrls
from app.inference.vision import VisionUnavailable
from app.inference.vision.openai_vision import MAX_ATTEMPTS
from app.ingestion.chunkers import CHUNKERS
from app.ingestion.images.description import MAX_FAILURES
from app.ingestion.types import NoTextFound
from app.knowledge_bases.types import Chunking, NewKnowledgeBase
from app.worker.handlers import JobContext
from harness.protocol_servers.chat import ChatServer, ReceivedVisionRequest, describe_colour
from tests.ingestion import illustrated
from tests.ingestion.workshop import Workshop, open_workshop, until, upload

RED, BLUE = "A red square of 120 by 100 dots.", "A blue square of 200 by 150 dots."


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture(scope="module")
async def workshop(
    database: DatabaseUrls, chat: ChatServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workshop]:
    async with open_workshop(database, tmp_path_factory.mktemp("data"), models=chat.vision_settings) as opened:
        yield opened


@pytest.fixture
async def services(workshop: Workshop, chat: ChatServer) -> AsyncIterator[TenantServices]:
    """Services of a new tenant; at the end the tables must be consistent."""
    chat.reset()
    chat.describe_image = describe_colour
    yield await workshop.new_tenant()
    await workshop.end_whole()


async def chunks(workshop: Workshop, document: DocumentRow) -> list[Any]:
    rows = await workshop.owner.fetch("select * from chunk where document_id = $1 order by ordinal", document.id)
    return list(rows)


async def stored(workshop: Workshop, document: DocumentRow) -> set[str]:
    return {one.key async for one in workshop.resources.objects.list_objects() if str(document.id) in one.key}


async def media_keys(workshop: Workshop, document: DocumentRow) -> set[str]:
    rows = await workshop.owner.fetch("select key from document_image where document_id = $1", document.id)
    return {row["key"] for row in rows}


async def warnings(workshop: Workshop, document: DocumentRow) -> str:
    return str((await workshop.document(document.id))["warnings"])


async def test_image_description_is_in_language_of_document(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    await services.knowledge_bases.create(NewKnowledgeBase("mixed", language="auto"))
    words = "Ein paar Worte über die Vögel an der Küste, die hier {} heißen."
    document = await upload(services, illustrated.docx(tmp_path / "birds.docx", words=words), kb="mixed")
    await workshop.ingest(document)
    assert (await workshop.document(document.id))["language"] == "german"
    assert ["german" in asked.text for asked in chat.received] == [True, True]


@pytest.mark.capability("image-chunk")
async def test_described_image_is_chunk_of_its_section(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)
    shown = [row for row in await chunks(workshop, document) if row["image_ordinal"] is not None]
    assert [(row["content"], row["page"], row["section_titles"]) for row in shown] == [
        (RED, 1, '["Harbours"]'),
        (BLUE, 2, '["Rivers"]'),
    ]
    assert {row["media_type"] for row in shown} == {"image/png"}
    nodes = await workshop.owner.fetch("select * from node where document_id = $1 and block = 'image'", document.id)
    assert len(nodes) == 2
    media = await workshop.owner.fetch("select * from document_image where document_id = $1", document.id)
    assert {(row["width"], row["height"], row["version"]) for row in media} == {(120, 100, 1), (200, 150, 1)}
    assert await media_keys(workshop, document) < await stored(workshop, document)
    assert {(asked.body["model"], "english" in asked.text) for asked in chat.received} == {("looker", True)}
    spent = await workshop.owner.fetchrow(
        "select * from embedding_usage where model = 'looker' and tenant_id = $1", services.principal.tenant_id
    )
    assert (spent["inputs"], spent["tokens"]) == (2, 200)
    assert await warnings(workshop, document) == "[]"


@pytest.mark.parametrize("chunker", sorted(CHUNKERS))
async def test_described_image_chunk_is_separate_in_every_chunker(
    workshop: Workshop, services: TenantServices, tmp_path: Path, chunker: str
) -> None:
    new = NewKnowledgeBase(name="other", chunking=Chunking(strategy=chunker))
    await services.knowledge_bases.create(new)
    document = await upload(services, illustrated.docx(tmp_path / "birds.docx"), kb="other")
    await workshop.ingest(document)
    found = {row["content"]: row["image_ordinal"] for row in await chunks(workshop, document)}
    assert {text: number for text, number in found.items() if "square" in text or number is not None} == {
        "A red square of 120 by 100 dots.": 0,
        "A green square of 120 by 100 dots.": 1,
    }


async def test_described_image_is_not_paid_for_again(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    path = illustrated.pdf(tmp_path / "two.pdf")
    document = await upload(services, path)
    await workshop.ingest(document)
    # As after a crash before the end, and then in another document of the tenant.
    await workshop.owner.execute("update document set status = 'queued' where id = $1", document.id)
    before = await media_keys(workshop, document)
    await workshop.ingest(document)
    await workshop.ingest(await upload(services, path, external_id="b"))
    assert len(chat.received) == 2
    assert not before & await media_keys(workshop, document)
    other = await workshop.new_tenant()
    await workshop.ingest(await upload(other, path))
    assert len(chat.received) == 4


async def test_image_descriptions_survive_crash(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    workshop.endpoint.fail(400, times=None)
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    with pytest.raises(Exception, match="embedding endpoint refuses"):
        await workshop.ingest(document)
    assert await media_keys(workshop, document) == set()
    workshop.endpoint.reset()
    await workshop.ingest(document)
    assert len(chat.received) == 2


@pytest.mark.parametrize("how", [400, "refusal", "empty"])
async def test_failed_image_description_is_counted(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path, how: Any
) -> None:
    chat.fail(how)
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)
    texts = [row["content"] for row in await chunks(workshop, document) if row["image_ordinal"] is not None]
    assert len(texts) == len(await media_keys(workshop, document)) == 1
    assert "1 image was not described. " in await warnings(workshop, document)
    assert "Picture 1" not in (await workshop.owner.fetchval(
        "select content from document_text where document_id = $1", document.id
    ))  # fmt: skip


async def test_image_model_that_always_fails_gets_no_more_calls(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    chat.fail(401, times=100)
    path = tmp_path / "many.docx"
    document = illustrated.WORD.Document()
    document.add_paragraph("Only these words are left.")
    for number in range(12):
        (tmp_path / "one.png").write_bytes(illustrated.square("red", (100 + number, 100)))
        document.add_picture(str(tmp_path / "one.png"))
    document.save(str(path))
    made = await upload(services, path)
    await workshop.ingest(made)
    assert len(chat.received) <= MAX_FAILURES + 1
    assert "12 images were not described. The vision model refuses (HTTP 401)" in await warnings(workshop, made)
    assert [row["content"] for row in await chunks(workshop, made)] == ["Only these words are left."]


async def test_document_of_one_image_waits_for_model(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    path = tmp_path / "red.png"
    path.write_bytes(illustrated.square("red"))
    document = await upload(services, path)
    chat.fail(429, retry_after="3600")
    with pytest.raises(VisionUnavailable):
        await workshop.ingest(document)
    chat.fail(400)
    with pytest.raises(NoTextFound):
        await workshop.ingest(document)
    chat.fail(503, retry_after="0.01", times=MAX_ATTEMPTS - 1)
    await workshop.ingest(document)
    (only,) = await chunks(workshop, document)
    assert (only["content"], only["image_ordinal"], only["page"]) == (RED, 0, None)


async def test_long_image_description_chunks_belong_to_image(
    workshop: Workshop, services: TenantServices, chat: ChatServer, tmp_path: Path
) -> None:
    def say(_: ReceivedVisionRequest) -> str:
        return " ".join(f"Sentence number {number} of many." for number in range(60))

    chat.describe_image = say
    path = tmp_path / "red.png"
    path.write_bytes(illustrated.square("red"))
    document = await upload(services, path)
    await workshop.ingest(document)
    rows = await chunks(workshop, document)
    assert len(rows) > 1
    assert {row["image_ordinal"] for row in rows} == {0}


async def test_new_version_has_its_own_images(workshop: Workshop, services: TenantServices, tmp_path: Path) -> None:
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)
    first = await media_keys(workshop, document)
    document = await upload(services, illustrated.pdf(tmp_path / "other.pdf", colours=("green", "blue")))
    assert document.version == 2
    await workshop.ingest(document)
    second = await media_keys(workshop, document)
    assert len(second) == 2
    assert not first & second
    descriptions = await workshop.owner.fetch("select content from image_caption where document_id = $1", document.id)
    assert {row["content"] for row in descriptions} == {"A green square of 120 by 100 dots.", BLUE}
    await workshop.owner.execute("delete from job where kind <> 'purge_objects'")
    async with workshop.working():
        await until(lambda: _no_jobs(workshop))
    assert len(await stored(workshop, document)) == 4
    assert second < await stored(workshop, document)
    # A version without images deletes the images.
    path = tmp_path / "plain.txt"
    path.write_text("Plain words.")
    document = await upload(services, path)
    await workshop.ingest(document)
    assert await media_keys(workshop, document) == set()


async def test_delete_document_deletes_images(workshop: Workshop, services: TenantServices, tmp_path: Path) -> None:
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)
    await workshop.drop_jobs()
    assert len(await stored(workshop, document)) == 4
    await services.deletions.delete("default", document.id)
    assert await media_keys(workshop, document) == set()
    assert not await workshop.owner.fetchval("select count(*) from image_caption where document_id = $1", document.id)
    async with workshop.working():
        await until(lambda: _no_jobs(workshop))
    assert await stored(workshop, document) == set()


async def test_sweeper_leaves_referenced_images(workshop: Workshop, services: TenantServices, tmp_path: Path) -> None:
    document = await upload(services, illustrated.pdf(tmp_path / "two.pdf"))
    await workshop.ingest(document)
    kept = await stored(workshop, document)
    orphan = f"{services.principal.tenant_id}/{document.id}/{services.principal.tenant_id}"
    (tmp_path / "x").write_bytes(b"x")
    await workshop.resources.objects.put(orphan, tmp_path / "x")
    # As if an hour had passed.
    sweeper = replace(JobContext(workshop.resources, workshop.pipeline).sweeper, orphan_age=timedelta(hours=-1))
    await sweeper.delete_orphans()
    assert await stored(workshop, document) == kept
    assert len(kept) == 4  # the original, its parse result and two images


async def _no_jobs(workshop: Workshop) -> bool:
    return not await workshop.owner.fetchval("select count(*) from job where every is null")
