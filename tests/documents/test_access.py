"""Restricted keys of users: random uploads by several keys, and the documents that each key reads, changes and
deletes.
"""

import random
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.documents.deletion.service import DeletionSelection
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentFields, DocumentNotFound
from app.errors import ForbiddenError, InvalidInputError
from app.knowledge_bases.types import NewKnowledgeBase
from app.principal import Principal, Role
from app.retrieval.types import SearchRequest
from tests.fixtures.trees import read_tree
from tests.ingestion.workshop import Workshop

UPLOADS, QUESTIONS = 110, 120
USERS, CHATS, AGENTS = ("u1", "u2"), ("c1", "c2", "c3", "u1"), ("a1", "a2")
WHOLE = "whole"
# No user owns the first chat. Each user owns a chat, and another user has a chat with its id. A user's chat does not
# keep another user from owning the chat without a user.
FIRST_UPLOADS = [
    (WHOLE, DocumentScope(None, "c1")), ("u1", DocumentScope(None, "c2")), ("u2", DocumentScope("u2", "c2", "a1")),
    ("u1", DocumentScope("u1", "c3")), ("u2", DocumentScope(None, "c3", "a1")), (WHOLE, DocumentScope("u2", "u1")),
    ("u1", DocumentScope(None, "u1")), ("u1", DocumentScope("u1", "c1")), ("u2", DocumentScope("u2", "c1")),
]  # fmt: skip
SCOPES = [
    DocumentScope(), *(DocumentScope(user) for user in (*USERS, "u3")), *(DocumentScope(None, chat) for chat in CHATS),
    *(DocumentScope(None, chat, agent) for chat in CHATS for agent in AGENTS),
    # Chats of users with the ids of chats without a user.
    *(DocumentScope(user, chat, agent) for user in (*USERS, "u3") for chat in CHATS[:3] for agent in (None, AGENTS[0])),
]  # fmt: skip


@dataclass
class AccessModel:
    """One tenant with an unrestricted key and one key for each user; ``documents`` and ``owners`` of chats are the
    model.
    """

    keys: dict[str, TenantServices]
    documents: dict[UUID, DocumentScope] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def may_add(self, key: str, scope: DocumentScope) -> bool:
        """Return whether a key may add to a scope: its user's level, its chats, and empty chats, which it then owns."""
        if key == WHOLE:
            return True
        if scope.chat_id is None or scope.user_id is not None:
            return scope.user_id == key
        if scope.chat_id not in self.owners and all(
            (one.user_id, one.chat_id) != (None, scope.chat_id) for one in self.documents.values()
        ):
            self.owners[scope.chat_id] = key
        return self.owners.get(scope.chat_id) == key

    def may_read(self, key: str, scope: DocumentScope) -> bool:
        if key == WHOLE or scope == DocumentScope():
            return True
        if scope.chat_id is None or scope.user_id is not None:
            return scope.user_id == key
        return self.owners.get(scope.chat_id) == key

    def readable(self, key: str) -> set[UUID]:
        return {document for document, scope in self.documents.items() if self.may_read(key, scope)}


@pytest.fixture(scope="module")
async def house(workshop: Workshop) -> AccessModel:
    whole = await workshop.new_tenant()
    tenant = whole.principal
    users = {
        user: TenantServices(
            Principal(tenant.tenant_id, tenant.tenant_name, Role.ADMIN, user_id=user), workshop.resources
        )
        for user in USERS
    }
    house, rng, refused = AccessModel({WHOLE: whole, **users}), random.Random(3), 0
    for number in range(UPLOADS):
        key, scope = rng.choice([WHOLE, *USERS, *USERS]), rng.choice(SCOPES)
        if number < len(FIRST_UPLOADS):
            key, scope = FIRST_UPLOADS[number]
        upload = house.keys[key].uploads.upload_text(
            "default", f"lantern {number}", DocumentFields(scope=scope), media_type="text/plain"
        )
        if house.may_add(key, scope):
            document = (await upload).document
            await workshop.ingest(document)
            house.documents[document.id] = scope
        else:
            refused += 1
            with pytest.raises(ForbiddenError):
                await upload
    assert refused > 10
    assert set(house.owners.values()) == set(USERS)
    return house


async def test_user_keys_search_sees_only_visible_documents(house: AccessModel) -> None:
    rng = random.Random(4)
    for _ in range(QUESTIONS):
        key, user, chat = rng.choice([WHOLE, *USERS]), rng.choice([None, *USERS]), rng.choice([None, *CHATS])
        asked = DocumentScope(user, chat, rng.choice([None, *AGENTS]) if chat else None)
        named = {
            DocumentScope(),
            DocumentScope(asked.user_id),
            DocumentScope(asked.user_id, asked.chat_id),
            DocumentScope(asked.user_id, asked.chat_id, asked.agent_id),
        }
        expected = {one for one in house.readable(key) if house.documents[one] in named}
        for strategy in ("dense", "lexical"):
            request = SearchRequest(["lantern"], strategy=strategy, top_k=200, scope=asked)
            hits = (await house.keys[key].retrieval.search(request)).hits
            assert {hit.document.id for hit in hits} == expected, (key, asked)


@pytest.mark.parametrize("key", [WHOLE, *USERS])
async def test_user_keys_list_and_read_only_visible_documents(house: AccessModel, key: str) -> None:
    services, readable = house.keys[key], house.readable(key)
    _, listed = await services.documents.list_documents("default", DocumentRowFilters(), after=None, limit=500)
    assert {document.id for document in listed} == readable
    for scope in SCOPES:
        filters = DocumentRowFilters(scope_key=scope.to_key())
        _, listed = await services.documents.list_documents("default", filters, after=None, limit=500)
        assert {document.id for document in listed} == {one for one in readable if house.documents[one] == scope}
    for document in house.documents:
        reads = (
            services.documents.get("default", document),
            services.documents.get_original("default", document, inline_types=()),
            read_tree(services.content, "default", document),
            services.content.list_chunks("default", document, node_id=None, after=-1, limit=1, utf16=False),
            anext(services.documents.stream_states("default", document, 0)),
        )
        for read in reads:
            if document in readable:
                assert await read is not None
            else:
                with pytest.raises(DocumentNotFound):
                    await read


@pytest.mark.parametrize("key", USERS)
async def test_user_keys_change_only_visible_documents(house: AccessModel, key: str) -> None:
    services, readable = house.keys[key], house.readable(key)
    for document, scope in house.documents.items():
        expected: type[Exception] | None = None
        if document not in readable:
            expected = DocumentNotFound
        elif scope == DocumentScope():
            expected = ForbiddenError
        for change in (
            services.documents.update("default", document, {"metadata": {"by": key}}),
            services.documents.reindex("default", document),
        ):
            if expected is None:
                assert (await change).id == document
            else:
                with pytest.raises(expected):
                    await change
    mine = next(
        one
        for one, scope in house.documents.items()
        if scope.user_id is None and house.owners.get(scope.chat_id or "") == key
    )
    for scope in (DocumentScope(), DocumentScope("u3"), DocumentScope(None, "c9")):
        with pytest.raises((ForbiddenError, InvalidInputError)):
            await services.documents.update("default", mine, {"scope": scope})
    for concerning_all in (
        services.knowledge_bases.create(NewKnowledgeBase("new")),
        services.knowledge_bases.update("default", {"title": "x"}),
        services.knowledge_bases.delete("default"),
    ):
        with pytest.raises(ForbiddenError):
            await concerning_all


async def test_user_keys_delete_only_own_documents(house: AccessModel) -> None:
    """The last test of the module: it deletes another user's document by id, and the user's own documents by filter."""
    key = USERS[0]
    services, readable = house.keys[key], house.readable(key)
    foreign = sorted(set(house.documents) - readable)
    own = {one for one in readable if house.documents[one] != DocumentScope()}
    with pytest.raises(DocumentNotFound):
        await services.deletions.delete("default", foreign[0])
    assert (await services.deletions.delete_many("default", DeletionSelection(ids=foreign), confirm=None))[1] == 0
    assert (await services.deletions.delete_many("default", DeletionSelection(filter={}), confirm="default"))[1] == len(
        own
    )
    whole = house.keys[WHOLE]
    _, left = await whole.documents.list_documents("default", DocumentRowFilters(), after=None, limit=500)
    assert {document.id for document in left} == set(house.documents) - own
