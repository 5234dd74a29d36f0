"""Promotion: every move between scopes, in documents and both search tables, also during ingestion."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.promotion import promote_document
from app.documents.scopes import DocumentScope
from app.documents.types import DuplicateIdentity
from app.errors import InvalidInputError
from tests.ingestion.workshop import Workshop, add_text, until

TENANT, USER, OTHER_USER = DocumentScope(), DocumentScope("u"), DocumentScope("v")
CHAT, OTHER_CHAT = DocumentScope(None, "c"), DocumentScope(None, "d")
AGENT, OTHER_AGENT, AGENT_OF_OTHER_CHAT = (
    DocumentScope(None, "c", "a"),
    DocumentScope(None, "c", "b"),
    DocumentScope(None, "d", "a"),
)
# Chats of users, with the same ids as chats without a user.
USER_CHAT, CHAT_OF_OTHER_USER, OTHER_CHAT_OF_USER = (
    DocumentScope("u", "c"),
    DocumentScope("v", "c"),
    DocumentScope("u", "d"),
)
USER_AGENT, OTHER_AGENT_OF_USER, AGENT_OF_OTHER_USER = (
    DocumentScope("u", "c", "a"),
    DocumentScope("u", "c", "b"),
    DocumentScope("v", "c", "a"),
)
SCOPES = (
    TENANT, USER, OTHER_USER, CHAT, OTHER_CHAT, AGENT, OTHER_AGENT, AGENT_OF_OTHER_CHAT,
    USER_CHAT, CHAT_OF_OTHER_USER, OTHER_CHAT_OF_USER, USER_AGENT, OTHER_AGENT_OF_USER, AGENT_OF_OTHER_USER,
)  # fmt: skip
UPWARDS = {
    (AGENT, CHAT), (OTHER_AGENT, CHAT), (AGENT_OF_OTHER_CHAT, OTHER_CHAT),
    *product((AGENT, OTHER_AGENT, AGENT_OF_OTHER_CHAT, CHAT, OTHER_CHAT), (USER, OTHER_USER)),
    (USER_AGENT, USER_CHAT), (OTHER_AGENT_OF_USER, USER_CHAT), (AGENT_OF_OTHER_USER, CHAT_OF_OTHER_USER),
    *product((USER_AGENT, OTHER_AGENT_OF_USER, USER_CHAT, OTHER_CHAT_OF_USER), (USER,)),
    *product((AGENT_OF_OTHER_USER, CHAT_OF_OTHER_USER), (OTHER_USER,)),
    *product(set(SCOPES) - {TENANT}, (TENANT,)),
}  # fmt: skip
WORDS = " ".join(f"word{number}" for number in range(400))


def document_of(scope: DocumentScope) -> DocumentRow:
    return DocumentRow(
        scope_level=scope.determine_level().value, scope_key=scope.to_key(),
        user_id=scope.user_id, chat_id=scope.chat_id, agent_id=scope.agent_id,
    )  # fmt: skip


def scope_of(document: DocumentRow) -> tuple[str, UUID, DocumentScope]:
    return (
        document.scope_level,
        document.scope_key,
        DocumentScope(document.user_id, document.chat_id, document.agent_id),
    )


@pytest.mark.capability("scope-promotion-rules")
@pytest.mark.parametrize(("here", "there"), list(product(SCOPES, SCOPES)), ids=str)
def test_promote_every_move_is_allowed_or_refused(here: DocumentScope, there: DocumentScope) -> None:
    document = document_of(here)
    if (here, there) in UPWARDS:
        assert promote_document(document, there)
        here = there
    elif here == there:
        assert not promote_document(document, there)
    else:
        with pytest.raises(InvalidInputError):
            promote_document(document, there)
    assert scope_of(document) == (here.determine_level().value, here.to_key(), here)


def test_promote_shared_document_is_refused() -> None:
    document = document_of(TENANT)
    document.scope_level, document.scope_key = "shared", UUID(int=1)
    with pytest.raises(InvalidInputError):
        promote_document(document, TENANT)


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    yield await workshop.new_tenant()
    workshop.endpoint.reset()
    await workshop.end_whole()


async def search_rows(workshop: Workshop, document_id: UUID) -> list[tuple[str, UUID, int]]:
    """Return the search tables with a document's rows, each with scope key and number of rows."""
    found = []
    for lane in ("chunk_embedding", "chunk_lexical"):
        rows = await workshop.owner.fetch(
            f"select l.scope_key, count(*) from {lane} l join chunk c on c.id = l.chunk_id "
            "where c.document_id = $1 group by 1",
            document_id,
        )
        found += [(lane, row[0], row[1]) for row in rows]
    return found


def all_of(scope: DocumentScope, count: int) -> list[tuple[str, UUID, int]]:
    return [("chunk_embedding", scope.to_key(), count), ("chunk_lexical", scope.to_key(), count)]


async def test_promote_updates_both_search_tables(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, WORDS, scope=AGENT, metadata={"a": 1})
    await workshop.ingest(document)
    count = (await workshop.document(document.id))["chunk_count"]
    assert count > 1
    assert await search_rows(workshop, document.id) == all_of(AGENT, count)
    for scope in (CHAT, USER, TENANT):
        moved = await services.documents.update("default", document.id, {"scope": scope})
        assert scope_of(moved) == (scope.determine_level().value, scope.to_key(), scope)
        assert await search_rows(workshop, document.id) == all_of(scope, count)


async def test_promote_refused_move_changes_nothing(workshop: Workshop, services: TenantServices) -> None:
    there = await add_text(services, WORDS, scope=TENANT)
    document = await add_text(services, WORDS, scope=USER)
    await workshop.ingest(document)
    before = dict(await workshop.document(document.id)), await search_rows(workshop, document.id)
    with pytest.raises(DuplicateIdentity):
        await services.documents.update("default", document.id, {"scope": TENANT, "title": "changed"})
    with pytest.raises(InvalidInputError):
        await services.documents.update("default", document.id, {"title": "changed", "scope": OTHER_USER})
    assert (dict(await workshop.document(document.id)), await search_rows(workshop, document.id)) == before
    await services.deletions.delete("default", there.id)
    await services.documents.update("default", document.id, {"scope": TENANT})


async def test_promote_during_first_ingestion_reaches_all_chunks(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, WORDS, scope=CHAT)
    async with embedding(workshop, document):
        await services.documents.update("default", document.id, {"scope": USER})
    found = await workshop.document(document.id)
    assert (found["status"], found["scope_key"]) == ("ready", USER.to_key())
    assert await search_rows(workshop, document.id) == all_of(USER, found["chunk_count"])


async def test_promote_during_second_ingestion_reaches_all_chunks(workshop: Workshop, services: TenantServices) -> None:
    document = await add_text(services, WORDS, scope=CHAT, external_id="e")
    await workshop.ingest(document)
    old = (await workshop.document(document.id))["chunk_count"]
    newer = await add_text(services, f"{WORDS} {WORDS}", scope=CHAT, external_id="e")
    assert (newer.id, newer.version) == (document.id, 2)
    async with embedding(workshop, newer):
        await services.documents.update("default", document.id, {"scope": TENANT})
        assert await search_rows(workshop, document.id) == all_of(TENANT, old)
    found = await workshop.document(document.id)
    assert (found["live_version"], found["chunk_count"] > old) == (2, True)
    assert await search_rows(workshop, document.id) == all_of(TENANT, found["chunk_count"])


async def test_upload_to_old_scope_after_promotion_is_new_document(
    workshop: Workshop, services: TenantServices
) -> None:
    """A later upload to the chat is a new document, not a version of the tenant's document."""
    document = await add_text(services, "first", scope=CHAT, external_id="e")
    await services.documents.update("default", document.id, {"scope": TENANT})
    said = await add_text(services, "second", scope=CHAT, external_id="e")
    assert (said.id != document.id, said.version, said.scope_key) == (True, 1, CHAT.to_key())
    with pytest.raises(DuplicateIdentity):
        await services.documents.update("default", said.id, {"scope": TENANT})


@asynccontextmanager
async def embedding(workshop: Workshop, document: DocumentRow) -> AsyncIterator[None]:
    """Keep the ingestion of a document in the embedding endpoint until the block ends, and wait for its end then."""
    with workshop.endpoint.paused():
        ingesting = asyncio.create_task(workshop.ingest(document))

        async def begun() -> bool:
            return await workshop.status(document.id) == "embedding"

        await until(begun)
        yield
    await ingesting
