"""Frequencies of private levels equal a count of the rows after any change of documents and index."""

import random
from uuid import UUID

from app.documents.scopes import OPEN_LEVEL_KEYS, SHARED_SCOPE, DocumentScope
from app.knowledge_bases.service import PURGE_KNOWLEDGE_BASE_JOB
from tests.index_maintenance.indexed_knowledge_base import IndexedKnowledgeBase
from tests.ingestion.workshop import add_text

SCOPES = (
    DocumentScope(),
    DocumentScope("u"),
    DocumentScope("v"),
    DocumentScope(None, "c"),
    DocumentScope(None, "c", "a"),
)
HIGHER = {
    DocumentScope(None, "c", "a"): DocumentScope(None, "c"),
    DocumentScope(None, "c"): DocumentScope("u"),
    DocumentScope("u"): DocumentScope(),
    DocumentScope("v"): DocumentScope(),
}
WORDS = ["lantern", "harbour", "pilot", "keeper", "gull", "tide"]
COUNT = "select count(*) from private_frequency where index_id = $1"


async def test_private_frequencies_follow_document_changes(library: IndexedKnowledgeBase) -> None:
    rng, moved = random.Random(5), 0
    documents: dict[UUID, DocumentScope] = {}
    for number in range(60):
        text = " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))
        action = rng.choice(["add", "add", "replace", "move", "move", "delete"]) if documents else "add"
        one = rng.choice([*documents]) if documents else UUID(int=0)
        scope = rng.choice(SCOPES) if action == "add" else documents[one]
        match action:
            case "delete":
                await library.delete(one)
                del documents[one]
            case "move" if scope in HIGHER:
                documents[one] = HIGHER[scope]
                moved += 1
                await library.services.documents.update("default", one, {"scope": HIGHER[scope]})
            case _:
                name = f"{number}" if action == "add" else f"of {one}"
                made = await add_text(library.services, text, external_id=name, scope=scope)
                await library.workshop.ingest(made)
                documents[made.id] = scope
        assert await library.workshop.inconsistencies() == {}, (number, action)
    assert moved > 2


async def test_private_frequencies_survive_folding(library: IndexedKnowledgeBase) -> None:
    for scope in SCOPES:
        await library.workshop.ingest(await add_text(library.services, " ".join(WORDS), scope=scope))
    owner = library.workshop.owner
    await owner.execute(
        "insert into private_frequency select tenant_id, index_id, scope_key, key, sign from private_frequency,"
        " (values (1), (-1)) s(sign), generate_series(1, 300)"
        " where index_id = $1 and scope_key <> all_private_levels()",
        library.index,
    )
    crowded = await owner.fetchval(COUNT, library.index)
    await library.workshop.maintenance.maintain(library.tenant, library.index)
    assert await owner.fetchval(COUNT, library.index) < crowded / 100
    assert await library.workshop.inconsistencies() == {}


async def test_private_frequencies_of_deleted_knowledge_base_are_removed(library: IndexedKnowledgeBase) -> None:
    await library.workshop.ingest(await add_text(library.services, "lantern", scope=DocumentScope("u")))
    assert await library.workshop.owner.fetchval(COUNT, library.index) == 4
    await library.services.knowledge_bases.delete("default")
    await library.workshop.run_jobs(PURGE_KNOWLEDGE_BASE_JOB)
    await library.workshop.maintenance.scan()
    assert await library.workshop.owner.fetchval(COUNT, library.index) == 0


async def test_open_levels_in_database_equal_code(library: IndexedKnowledgeBase) -> None:
    known = "select is_open_level($1)"
    for scope in (*SCOPES, SHARED_SCOPE):
        assert await library.workshop.owner.fetchval(known, scope.to_key()) == (scope.to_key() in OPEN_LEVEL_KEYS), (
            scope
        )
    assert {SHARED_SCOPE.to_key(), DocumentScope().to_key()} == OPEN_LEVEL_KEYS
