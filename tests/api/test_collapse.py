"""``collapse``: identical texts of one knowledge base become one result that names the others."""

from typing import Any

import pytest

from harness.running_service import Service, Tenant

NOTICE = "The office is closed on public holidays, and the phone is not answered."
OTHERS = [
    "The office opens at nine on working days.", "Public holidays are listed on the first page of the calendar.",
    "The phone of the office is on the second floor.", "Holidays are requested in writing.",
]  # fmt: skip
STRATEGIES = ["hybrid", "dense", "lexical"]


@pytest.fixture(scope="module")
def office(service: Service) -> Tenant:
    """Create a tenant with one notice in three documents, and in the documents of two users."""
    tenant = service.create_tenant("collapsing")
    for number, text in enumerate([NOTICE, f"{NOTICE}\n", f"  {NOTICE}", *OTHERS]):
        tenant.add_text(text, external_id=f"text-{number}")
    for user in ("u1", "u2"):
        tenant.add_text(NOTICE, user_id=user, external_id=f"of-{user}")
    return tenant


def search(tenant: Tenant, **body: Any) -> list[dict[str, Any]]:
    body = {"query": "office closed on public holidays", "collapse": True, **body}
    reply = tenant.admin.post("/v1/knowledge-bases/default/search", json=body)
    assert reply.status_code == 200, reply.text
    results: list[dict[str, Any]] = reply.json()["results"]
    return results


def find_notice(results: list[dict[str, Any]]) -> dict[str, Any]:
    (notice,) = [result for result in results if result["text"].strip() == NOTICE]
    return notice


def list_document_ids(tenant: Tenant, *users: str) -> set[str]:
    """Return the ids of the documents with the notice, of the tenant and of users."""
    pages = [
        tenant.admin.get("/v1/knowledge-bases/default/documents", params=ids).json()["items"]
        for ids in ({}, *({"user_id": user} for user in users))
    ]
    expected = ("text-0", "text-1", "text-2", *(f"of-{user}" for user in users))
    return {item["id"] for page in pages for item in page if item["external_id"] in expected}


def name_documents(notice: dict[str, Any]) -> list[str]:
    return [notice["document"]["id"], *(item["document_id"] for item in notice["duplicates"])]


@pytest.mark.capability("search-collapse")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_collapse_identical_texts_become_one_result_that_names_the_others(office: Tenant, strategy: str) -> None:
    notice = find_notice(search(office, strategy=strategy, top_k=10))
    assert notice["duplicate_count"] == len(notice["duplicates"]) == 2
    assert set(name_documents(notice)) == list_document_ids(office)
    for item in notice["duplicates"]:
        chunk = office.admin.get(f"/v1/chunks/{item['chunk_id']}").json()
        assert chunk["text"].strip() == NOTICE
        assert item["chunk_index"] == 0
        assert item["source"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_collapse_top_k_counts_distinct_texts(office: Tenant, strategy: str, top_k: int) -> None:
    everything = search(office, strategy=strategy, top_k=100)
    results = search(office, strategy=strategy, top_k=top_k)
    assert len(results) == top_k
    assert [(item["chunk_id"], item["score"]) for item in results] == [
        (item["chunk_id"], item["score"]) for item in everything[:top_k]
    ]
    assert len({item["text"].strip() for item in everything}) == len(everything)
    assert results[0]["duplicates"] == everything[0]["duplicates"]


def test_collapse_never_names_documents_outside_the_scope_or_the_filter(office: Tenant) -> None:
    notice = find_notice(search(office, scope={"user_id": "u1"}))
    assert set(name_documents(notice)) == list_document_ids(office, "u1")
    assert notice["duplicate_count"] == 3
    narrow = {"$document_id": notice["document"]["id"]}
    assert find_notice(search(office, scope={"user_id": "u1"}, filter=narrow))["duplicates"] == []


def test_collapse_restricted_key_sees_only_its_user(office: Tenant) -> None:
    reply = office.admin.post("/v1/api-keys", json={"name": "of-u2", "role": "reader", "user_id": "u2"})
    reader = office.service.create_client(reply.json()["key"])
    for user, visible in (("u1", []), ("u2", ["u2"])):
        body = {"query": "office closed", "collapse": True, "scope": {"user_id": user}}
        results = reader.post("/v1/knowledge-bases/default/search", json=body).json()["results"]
        assert set(name_documents(find_notice(results))) == list_document_ids(office, *visible)


def test_collapse_deleted_document_is_not_named(office: Tenant) -> None:
    document = office.add_text(f"{NOTICE}  ", external_id="leaving")
    assert document["id"] in name_documents(find_notice(search(office)))
    office.admin.delete(f"/v1/knowledge-bases/default/documents/{document['id']}").raise_for_status()
    assert document["id"] not in name_documents(find_notice(search(office)))


def test_collapse_is_off_by_default(office: Tenant) -> None:
    results = search(office, collapse=False, top_k=10)
    assert sum(result["text"].strip() == NOTICE for result in results) == 3
    assert not any("duplicates" in result or "duplicate_count" in result for result in results)


def test_collapse_compares_expanded_texts(service: Service) -> None:
    tenant = service.create_tenant("collapsing-sections")
    chunking = {"strategy": "recursive", "max_tokens": 16, "overlap_tokens": 0}
    tenant.admin.post("/v1/knowledge-bases", json={"name": "small", "chunking": chunking}).raise_for_status()
    rules = "# Rules\n\n" + "\n\n".join(f"Rule {number}: the ferry leaves at {number} o'clock." for number in range(8))
    for copy in range(2):
        tenant.add_text(rules, kb="small", external_id=f"copy-{copy}", media_type="text/markdown")
    tenant.add_text("# Harbour\n\nThe ferry waits in the harbour.", kb="small", media_type="text/markdown")
    for options in ({"expand": "section"}, {"expand": "parent", "expand_options": {"merge": 0.4}}):
        body = {"query": "when does the ferry leave", "collapse": True, "top_k": 9, **options}
        results = tenant.admin.post("/v1/knowledge-bases/small/search", json=body).json()["results"]
        texts = [" ".join(result["text"].split()) for result in results]
        assert len(set(texts)) == len(texts)
        (section,) = [result for result in results if "Rule 0" in result["text"]]
        assert "Rule 7" in section["text"]
        assert section["duplicate_count"] == 1
        assert section["duplicates"][0]["document_id"] != section["document"]["id"]


def test_collapse_with_rerank_names_the_others(office: Tenant) -> None:
    body = {"query": "office closed on public holidays", "collapse": True, "rerank": True}
    reply = office.admin.post("/v1/knowledge-bases/default/search", json=body).json()
    assert find_notice(reply["results"])["duplicate_count"] == 2
