"""A drive through Carrel's OpenAI API with the official client. It is a program, so that several client versions can
run it.

``python drive.py URL ADMIN_KEY READER_KEY NATIVE_STORE`` prints a line for each step, and stops with the first
failure.
NATIVE_STORE is the id of a knowledge base that was filled through the native API.
"""

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import openai

WAIT_SECONDS = 30
LEAVE = ("leave.md", b"# Leave\n\nEvery employee has thirty days of parental leave.\n", "text/markdown")
TRAVEL = ("travel.txt", b"Trains are booked by the travel desk, and flights by the manager.", "text/plain")


def report(step: str, **values: object) -> None:
    print(step, *(f"{name}={value}" for name, value in values.items()))


@contextmanager
def refused(kind: type[openai.APIStatusError], code: str, *, param: str | None = None) -> Any:
    raised: list[openai.APIStatusError] = []
    try:
        yield
    except openai.APIStatusError as exc:
        raised.append(exc)
    (error,) = raised
    assert type(error) is kind, repr(error)
    assert error.code == code, error.body
    assert param is None or error.param == param, error.body
    report("refused", error=type(error).__name__, code=code)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def files(client: openai.OpenAI) -> tuple[str, str]:
    made = client.files.create(file=LEAVE, purpose="assistants")
    assert (made.object, made.filename, made.bytes, made.purpose) == ("file", "leave.md", len(LEAVE[1]), "assistants")
    other = client.files.create(file=TRAVEL, purpose="user_data")
    assert client.files.retrieve(made.id) == made
    assert [file.id for file in client.files.list()] == [other.id, made.id]
    assert [file.id for file in client.files.list(order="asc", limit=1)] == [made.id, other.id]  # two pages
    assert [file.id for file in client.files.list(purpose="user_data")] == [other.id]
    assert client.files.content(made.id).read() == LEAVE[1]
    soon = client.files.create(
        file=("soon.txt", b"Gone in an hour."),
        purpose="assistants",
        extra_body={"expires_after": {"anchor": "created_at", "seconds": 3600}},
    )
    assert soon.model_dump()["expires_at"] == soon.created_at + 3600
    gone = client.files.delete(soon.id)
    assert (gone.id, gone.deleted) == (soon.id, True)
    with refused(openai.NotFoundError, "file_not_found"):
        client.files.retrieve(soon.id)
    with refused(openai.BadRequestError, "invalid", param="purpose"):
        client.files.create(file=LEAVE, purpose="fine-tune")
    with refused(openai.BadRequestError, "empty"):
        client.files.create(file=("empty.txt", b""), purpose="assistants")
    report("files", created=3, listed=2)
    return made.id, other.id


def stores(client: openai.OpenAI) -> str:
    made = client.vector_stores.create(name="Handbook & Policies", metadata={"team": "people"})
    assert (made.name, made.metadata, made.status) == ("Handbook & Policies", {"team": "people"}, "completed")
    assert made.model_extra is not None
    assert made.model_extra["knowledge_base"] == "handbook-policies"
    twin = client.vector_stores.create(name="Handbook & Policies")
    assert twin.id != made.id
    assert client.vector_stores.retrieve("handbook-policies").id == made.id
    changed = client.vector_stores.update(made.id, name="Handbook", metadata={"team": "all"})
    assert (changed.name, changed.metadata) == ("Handbook", {"team": "all"})
    listed = [store.id for store in client.vector_stores.list(limit=1)]
    assert listed[:2] == [twin.id, made.id]
    assert [store.id for store in client.vector_stores.list(order="asc")] == list(reversed(listed))
    page = client.vector_stores.list(before=listed[1], limit=5)
    assert [store.id for store in page.data] == [listed[0]]
    deleted = client.vector_stores.delete(twin.id)
    assert (deleted.id, deleted.deleted) == (twin.id, True)
    with refused(openai.NotFoundError, "knowledge_base_not_found"):
        client.vector_stores.retrieve(twin.id)
    with refused(openai.BadRequestError, "invalid", param="expires_after"):
        client.vector_stores.create(name="x", expires_after={"anchor": "last_active_at", "days": 1})
    report("vector stores", listed=len(listed))
    return made.id


def attached(client: openai.OpenAI, store: str, leave: str, travel: str) -> None:
    one = client.vector_stores.files.create_and_poll(leave, vector_store_id=store, attributes={"year": 2024})
    assert (one.id, one.status, one.last_error, one.attributes) == (leave, "completed", None, {"year": 2024})
    two = client.vector_stores.files.upload_and_poll(vector_store_id=store, file=("rooms.txt", b"Rooms are green."))
    assert two.status == "completed"
    names = [file.id for file in client.vector_stores.files.list(store, filter="completed", limit=1)]
    assert names == [two.id, leave]
    assert [file.id for file in client.vector_stores.files.list(store, order="asc")] == [leave, two.id]
    assert [file.id for file in client.vector_stores.files.list(store, before=leave).data] == [two.id]
    assert list(client.vector_stores.files.list(store, filter="failed")) == []
    changed = client.vector_stores.files.update(
        leave, vector_store_id=store, attributes={"year": 2025, "kind": "policy", "draft": False}
    )
    assert changed.attributes == {"year": 2025, "kind": "policy", "draft": False}
    assert client.vector_stores.files.retrieve(leave, vector_store_id=store) == changed
    (text,) = client.vector_stores.files.content(leave, vector_store_id=store)
    assert "thirty days" in (text.text or "")
    assert client.vector_stores.retrieve(store).file_counts.completed == 2
    gone = client.vector_stores.files.delete(two.id, vector_store_id=store)
    assert gone.deleted
    assert client.files.retrieve(two.id).id == two.id
    with refused(openai.NotFoundError, "document_not_found"):
        client.vector_stores.files.retrieve(two.id, vector_store_id=store)
    client.files.delete(two.id)
    with refused(openai.BadRequestError, "invalid", param="chunking_strategy"):
        client.vector_stores.files.create(
            store,
            file_id=travel,
            chunking_strategy={"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50}},
        )
    defaults = client.vector_stores.create(
        name="Default sizes of OpenAI",
        chunking_strategy={"type": "static", "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}},
    )
    client.vector_stores.delete(defaults.id)
    report("vector store files", attached=2, detached=1)


def batches(client: openai.OpenAI, store: str, travel: str) -> None:
    archive = client.files.create(file=("a.zip", b"PK\x05\x06" + bytes(18)), purpose="assistants")
    batch = client.vector_stores.file_batches.create(store, file_ids=[travel, archive.id], attributes={"year": 2023})
    batch = client.vector_stores.file_batches.poll(batch.id, vector_store_id=store)
    counts = batch.file_counts
    assert (batch.status, counts.completed, counts.failed, counts.total) == ("completed", 1, 1, 2)
    files = list(client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store, limit=1))
    assert [file.id for file in files] == [archive.id, travel]
    assert files[0].last_error is not None
    assert files[0].last_error.code == "unsupported_file"
    failed = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store, filter="failed")
    assert [file.id for file in failed] == [archive.id]
    uploaded = client.vector_stores.file_batches.upload_and_poll(
        store, files=[("one.txt", b"One word."), ("two.txt", b"Two words.")]
    )
    assert uploaded.file_counts.completed == 2
    cancelled = client.vector_stores.file_batches.cancel(uploaded.id, vector_store_id=store)
    assert (cancelled.status, cancelled.file_counts.completed) == ("cancelled", 2)
    again = client.vector_stores.file_batches.retrieve(uploaded.id, vector_store_id=store)
    assert again.status == "cancelled"
    with refused(openai.NotFoundError, "file_batch_not_found"):
        client.vector_stores.file_batches.retrieve("vsfb_nothing", vector_store_id=store)
    report("file batches", completed=3, failed=1)


def searches(client: openai.OpenAI, store: str, leave: str, travel: str) -> None:
    def found(query: Any, **options: Any) -> list[str]:
        return [hit.file_id for hit in client.vector_stores.search(store, query=query, **options)]

    page = client.vector_stores.search(store, query="How long is parental leave?", max_num_results=1)
    (hit,) = page.data
    assert (hit.file_id, hit.filename) == (leave, "leave.md")
    assert "thirty days" in hit.content[0].text
    assert hit.attributes == {"year": 2025, "kind": "policy", "draft": False}
    assert 0 < hit.score <= 1
    assert hit.model_extra is not None
    assert hit.model_extra["citation"] == "leave.md"
    assert set(found(["parental leave", "train tickets"], max_num_results=50)) >= {leave, travel}
    year = {"type": "gte", "key": "year", "value": 2025}
    assert found("leave", filters=year) == [leave]
    assert found("leave", filters={"type": "eq", "key": "draft", "value": False}) == [leave]
    assert found("leave", filters={"type": "in", "key": "kind", "value": ["policy", "law"]}) == [leave]
    assert travel in found("leave", filters={"type": "ne", "key": "kind", "value": "policy"})
    both = {"type": "and", "filters": [year, {"type": "nin", "key": "kind", "value": ["policy"]}]}
    assert found("leave", filters=both) == []
    either = {"type": "or", "filters": [year, {"type": "eq", "key": "year", "value": 2023}]}
    assert set(found("leave", filters=either)) == {leave, travel}
    assert found("zeppelin", ranking_options={"score_threshold": 0.99}) == []
    options: dict[str, Any] = {"ranker": "none", "score_threshold": 0.1}
    options["hybrid_search"] = {"embedding_weight": 1, "text_weight": 3}
    assert found("parental leave", ranking_options=options)[0] == leave
    assert leave in found("parental leave", rewrite_query=True)
    with refused(openai.BadRequestError, "invalid", param="max_num_results"):
        found("leave", max_num_results=51)
    report("search", best=hit.filename, score=hit.score)


def errors(url: str, reader: openai.OpenAI, store: str, leave: str) -> None:
    with refused(openai.AuthenticationError, "unauthorized"):
        openai.OpenAI(base_url=url, api_key="nonsense", max_retries=0).files.list()
    with refused(openai.PermissionDeniedError, "forbidden"):
        reader.files.create(file=TRAVEL, purpose="assistants")
    with refused(openai.PermissionDeniedError, "forbidden"):
        reader.vector_stores.create(name="mine")
    with refused(openai.NotFoundError, "file_not_found"):
        reader.files.retrieve("file_nothing")
    with refused(openai.NotFoundError, "not_found"):
        reader.get("/nothing", cast_to=object)
    with refused(openai.BadRequestError, "invalid", param="after"):
        reader.vector_stores.files.list(store, after="file_nothing")
    assert reader.vector_stores.files.retrieve(leave, vector_store_id=store).status == "completed"


def native(client: openai.OpenAI, store: str) -> None:
    """Check that the OpenAI API shows a document of the native API."""
    found = client.vector_stores.retrieve(store)
    assert found.file_counts.total == 1
    (file,) = client.vector_stores.files.list(store)
    assert file.id.startswith("doc_")
    (hit,) = client.vector_stores.search(store, query="heron")
    assert hit.file_id == file.id
    assert client.vector_stores.files.retrieve(hit.file_id, vector_store_id=store).status == "completed"
    report("native knowledge base", name=found.name, file=file.filename if hasattr(file, "filename") else "")


def main() -> None:
    url, admin, reader, store_of_native = sys.argv[1:]
    client = openai.OpenAI(base_url=url, api_key=admin, max_retries=1, timeout=60)
    report("openai", version=openai.__version__)
    leave, travel = files(client)
    store = stores(client)
    attached(client, store, leave, travel)
    batches(client, store, travel)
    searches(client, store, leave, travel)
    errors(url, openai.OpenAI(base_url=url, api_key=reader, max_retries=1, timeout=60), store, leave)
    native(client, store_of_native)
    client.files.delete(leave)
    until(lambda: leave not in [file.id for file in client.vector_stores.files.list(store)])
    assert leave not in [hit.file_id for hit in client.vector_stores.search(store, query="parental leave")]
    report("done")


if __name__ == "__main__":
    main()
