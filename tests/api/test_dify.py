"""Dify's external knowledge API: a probe with the key alone, then searches."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from harness.running_service import Service, Tenant

RETRIEVAL = "/dify/retrieval"
PAPERS: dict[str, dict[str, Any]] = {
    "old": {"year": 2019, "kind": "report", "tags": ["alpha", "beta"], "file": "old.pdf", "date": "2019-05-01"},
    "new": {"year": 2024, "kind": "memo", "tags": ["beta"], "file": "new.txt", "date": "2024-05-01", "pages": "12"},
    "bare": {"kind": "", "note": None},
}
LISTS = {"holds null": [None, "x"], "holds nothing said": ["", "x"], "empty list": [], "null": None, "nothing said": ""}
FLAGS = {"flagged": True, "unflagged": False, "one": 1, "nought": 0}
CODES = {"nan": "NaN", "inf": "Infinity", "large": "1e400", "joined": "1_000", "thousand": 1000, "five": "٥", "5": 5}


class Dify:
    """Dify's requests: the key alone at registration, and a full body with each search."""

    def __init__(self, service: Service, key: str) -> None:
        self.client = httpx2.Client(
            base_url=f"{service.url}/dify", headers={"Authorization": f"Bearer {key}"}, timeout=60
        )

    def probe(self) -> None:
        """Send the probe; raise an error for a status with which registration would fail."""
        status = self.client.post("retrieval").status_code
        if status in (403, 404, 502):
            raise ConnectionError(status)

    def search(self, knowledge_id: str, query: str, **more: Any) -> list[dict[str, Any]]:
        """Return the records.

        Raises:
        ValueError: The search failed; the message is the text that Dify shows.
        """
        setting = {"top_k": 4, "score_threshold": 0.0}
        body = {"retrieval_setting": setting, "query": query, "knowledge_id": knowledge_id, **more}
        reply = self.client.post("retrieval", json=body)
        if reply.status_code != 200:
            raise ValueError(reply.text)
        records: list[dict[str, Any]] = reply.json()["records"]
        for record in records:
            assert isinstance(record["metadata"], dict)
            assert 0 <= record["score"] <= 1
            assert isinstance(record["content"], str)
            assert isinstance(record["title"], str)
        return records


@pytest.fixture(scope="module")
def shelf(service: Service) -> Tenant:
    tenant = service.create_tenant("shelf")
    for name, metadata in PAPERS.items():
        tenant.add_text(f"A lantern of the {name} kind.", external_id=name, title=name, metadata=metadata)
    return tenant


@pytest.fixture(scope="module")
def dify(shelf: Tenant) -> Iterator[Dify]:
    made = Dify(shelf.service, shelf.key)
    with made.client:
        yield made


@pytest.mark.capability("dify")
def test_dify_probe_and_search_succeed(dify: Dify, shelf: Tenant) -> None:
    dify.probe()
    records = dify.search("default", "What is a lantern of the new kind?")
    assert records[0]["content"] == "A lantern of the new kind."
    assert records[0]["title"] == "new"
    assert records[0]["metadata"]["year"] == 2024
    assert records[0]["metadata"]["document_id"].startswith("doc_")
    assert {record["title"] for record in records} == set(PAPERS)
    kb = shelf.admin.get("/v1/knowledge-bases/default").json()["id"]
    assert dify.search(kb, "What is a lantern of the new kind?") == records


@pytest.mark.parametrize(
    "setting", [None, {}, {"top_k": None, "score_threshold": None}, {"top_k": 3, "score_threshold": 0, "more": 1}]
)
def test_dify_null_or_missing_settings_use_defaults(dify: Dify, setting: Any) -> None:
    assert len(dify.search("default", "lantern", retrieval_setting=setting, metadata_condition=None)) == 3


def test_dify_settings_limit_results(dify: Dify) -> None:
    assert len(dify.search("default", "lantern", retrieval_setting={"top_k": 1, "score_threshold": 0.0})) == 1
    scores = [record["score"] for record in dify.search("default", "old lantern")]
    among = {"top_k": 10, "score_threshold": max(scores)}
    kept = dify.search("default", "old lantern", retrieval_setting=among)
    assert [record["score"] for record in kept] == [max(scores)]


def test_dify_blank_query_returns_no_records(dify: Dify) -> None:
    assert dify.search("default", "  ") == []


@pytest.mark.capability("dify-conditions")
@pytest.mark.parametrize(
    ("name", "operator", "value", "found"),
    [
        ("tags", "contains", "alpha", {"old"}),
        ("kind", "contains", "em", {"new"}),
        ("tags", "not contains", "alpha", {"new", "bare"}),
        ("file", "start with", "old.", {"old"}),
        ("file", "end with", ".txt", {"new"}),
        ("kind", "is", "memo", {"new"}),
        ("kind", "is not", "memo", {"old", "bare"}),
        ("kind", "in", ["memo", "report"], {"old", "new"}),
        ("kind", "in", "memo, report", {"old", "new"}),
        ("kind", "not in", ["memo"], {"old", "bare"}),
        ("kind", "empty", None, {"bare"}),
        ("note", "empty", None, {"old", "new", "bare"}),
        ("kind", "not empty", None, {"old", "new"}),
        ("year", "null", None, {"bare"}),
        ("year", "not null", None, {"old", "new"}),
        ("year", "=", 2024, {"new"}),
        ("year", "=", "2024", {"new"}),
        ("pages", "=", 12, set()),
        ("pages", "=", "12", {"new"}),
        ("year", "≠", "2024", {"old", "bare"}),
        ("year", ">", "2019", {"new"}),
        ("year", "<", 2024, {"old"}),
        ("year", "≥", 2019, {"old", "new"}),
        ("year", "≤", 2019.5, {"old"}),
        ("date", "before", "2020", {"old"}),
        ("date", "after", "2020-01-01T00:00:00Z", {"new"}),
        ("year", "before", 2020, {"old"}),
        (["file", "kind"], "contains", "memo", {"new"}),
        (["file", "kind"], "contains", "o", {"old", "new"}),
        (["tags", "kind"], "not contains", "memo", {"old", "bare"}),
        (["year", "kind"], "empty", None, {"bare"}),
        ("$source", "is not", "nothing", {"old", "new", "bare"}),
    ],
)
def test_dify_operator_selects_documents(
    dify: Dify, name: str | list[str], operator: str, value: Any, found: set[str]
) -> None:
    names = [name] if isinstance(name, str) else name
    condition = {"conditions": [{"name": names, "comparison_operator": operator, "value": value}]}
    records = dify.search("default", "lantern", metadata_condition=condition)
    assert {record["title"] for record in records} == found


@pytest.fixture(scope="module")
def odd(shelf: Tenant) -> str:
    """Knowledge base whose documents have unusual metadata: nearly empty lists, and texts that look like numbers."""
    shelf.admin.post("/v1/knowledge-bases", json={"name": "odd"}).raise_for_status()
    for name, value in {**LISTS, **CODES, **FLAGS}.items():
        metadata = {"tags" if name in LISTS else "flag" if name in FLAGS else "code": value}
        shelf.add_text(f"A lantern called {name}.", kb="odd", title=name, metadata=metadata)
    return "odd"


def found_among(dify: Dify, kb: str, name: str, operator: str, value: Any) -> set[str]:
    condition = {"conditions": [{"name": name, "comparison_operator": operator, "value": value}]}
    setting = {"top_k": 50}
    records = dify.search(kb, "lantern", metadata_condition=condition, retrieval_setting=setting)
    return {record["title"] for record in records}


def test_dify_list_with_any_item_is_not_empty(dify: Dify, odd: str) -> None:
    full = {name for name, value in LISTS.items() if isinstance(value, list)}
    assert found_among(dify, odd, "tags", "not empty", None) == full
    assert found_among(dify, odd, "tags", "empty", None) == {*LISTS, *CODES, *FLAGS} - full


@pytest.mark.parametrize("name", FLAGS)
def test_dify_boolean_is_not_a_number(dify: Dify, odd: str, name: str) -> None:
    assert found_among(dify, odd, "flag", "is", FLAGS[name]) == {name}
    assert found_among(dify, odd, "flag", "in", [FLAGS[name], "x"]) == {name}


@pytest.mark.parametrize("name", CODES)
def test_dify_only_numeric_text_compares_as_number(dify: Dify, odd: str, name: str) -> None:
    assert found_among(dify, odd, "code", "=", str(CODES[name])) == {name}
    assert found_among(dify, odd, "code", "≠", str(CODES[name])) == {*LISTS, *CODES, *FLAGS} - {name}


@pytest.mark.parametrize(
    ("field", "logic", "found"),
    [
        ("logical_operator", "and", set()),
        ("logical_operator", "or", {"old", "new"}),
        ("logic", "or", {"old", "new"}),
        ("logic", None, set()),
    ],
)
def test_dify_conditions_are_combined(dify: Dify, field: str, logic: str | None, found: set[str]) -> None:
    conditions = [
        {"name": "kind", "comparison_operator": "is", "value": "memo"},
        {"name": ["year"], "comparison_operator": "=", "value": "2019"},
    ]
    condition = {field: logic, "conditions": conditions}
    assert {one["title"] for one in dify.search("default", "lantern", metadata_condition=condition)} == found


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            {"metadata_condition": {"conditions": [{"name": ["k"], "comparison_operator": "like"}]}},
            "'like' is unknown",
        ),
        (
            {"metadata_condition": {"conditions": [{"name": ["k"], "comparison_operator": "before", "value": "soon"}]}},
            "ISO-8601",
        ),
        ({"metadata_condition": {"conditions": [{"name": [], "comparison_operator": "empty"}]}}, "name"),
        ({"metadata_condition": {"logic": "xor"}}, "logic"),
        ({"retrieval_setting": {"top_k": 0}}, "top_k"),
        ({"query": "nul \0"}, "U+0000"),
        ({"query": None}, "query"),
        ({"knowledge_id": "\0"}, "knowledge_id"),
    ],
)
def test_dify_invalid_request_is_422_with_message(dify: Dify, body: dict[str, Any], told: str) -> None:
    reply = dify.client.post("retrieval", json={"knowledge_id": "default", "query": "lantern", **body})
    assert reply.status_code == 422
    assert reply.json()["error_code"] == 422
    assert told in reply.json()["error_msg"]


def test_dify_invalid_json_is_422(dify: Dify) -> None:
    for content in (b"{", b"[]", b"[" * 100_000, b"1" * 5000):
        reply = dify.client.post("retrieval", content=content, headers={"Content-Type": "application/json"})
        assert (reply.status_code, reply.json()["error_code"]) == (422, 422)


@pytest.mark.parametrize(
    ("authorization", "code"),
    [(None, 1001), ("Basic abc", 1001), ("Bearer", 1001), ("Bearer wrong", 1002), ("Bearer carrel_" + "x" * 38, 1002)],
)
def test_dify_key_is_checked_before_body(service: Service, authorization: str | None, code: int) -> None:
    headers = {"Content-Type": "application/json"} | ({"Authorization": authorization} if authorization else {})
    for content in (b"", b"{ nonsense"):
        reply = service.create_client().post(RETRIEVAL, content=content, headers=headers)
        assert (reply.status_code, reply.json()["error_code"]) == (403, code)
        assert set(reply.json()) == {"error_code", "error_msg"}


def test_dify_foreign_knowledge_id_is_2001(service: Service, dify: Dify, shelf: Tenant) -> None:
    other = service.create_tenant("other")
    foreign = other.admin.post("/v1/knowledge-bases", json={"name": "theirs"}).json()
    shelf.admin.post("/v1/knowledge-bases", json={"name": "narrow"}).raise_for_status()
    narrowed = shelf.create_client("reader", knowledge_bases=["narrow"])
    replies = [
        dify.client.post("retrieval", json={"knowledge_id": one, "query": "lantern"})
        for one in (foreign["id"], "theirs", "nothing")
    ]
    replies.append(narrowed.post(RETRIEVAL, json={"knowledge_id": "default", "query": "lantern"}))
    assert {reply.status_code for reply in replies} == {404}
    assert [reply.json() for reply in replies] == [
        {"error_code": 2001, "error_msg": "The knowledge does not exist."}
    ] * 4


def test_dify_search_is_rate_limited_and_counted(service: Service) -> None:
    tenant = service.create_tenant("slow")
    quotas = {"quotas": {"searches_per_second": 0.01}}
    service.operator.patch(f"/v1/tenants/{tenant.id}", json=quotas).raise_for_status()
    asked = {"knowledge_id": "default", "query": "lantern"}
    replies = [tenant.admin.post(RETRIEVAL, json=asked) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 429]
    assert replies[0].headers["RateLimit-Remaining"] == "0"
    assert replies[1].json()["error_code"] == 429
    assert int(replies[1].headers["retry-after"]) > 0
    assert tenant.admin.get("/v1/usage").json()["items"][0]["searches"] == 1


def test_dify_probe_has_no_server_timing(dify: Dify) -> None:
    assert "Server-Timing" not in dify.client.post("retrieval").headers


def test_dify_body_above_limit_is_413(dify: Dify) -> None:
    """The middleware refuses a body with a content length, the route a body without one."""
    headers, megabyte = {"Content-Type": "application/json"}, b" " * 1024 * 1024
    assert dify.client.post("retrieval", content=megabyte * 17, headers=headers).status_code == 413
    reply = dify.client.post("retrieval", content=(megabyte for _ in range(17)), headers=headers)
    assert (reply.status_code, reply.json()["error_code"]) == (413, 413)


def test_dify_operation_is_in_openapi(service: Service) -> None:
    told = service.create_client().get("/openapi.json").json()["paths"][RETRIEVAL]["post"]
    assert set(told["responses"]) >= {"200", "403", "404", "422", "429", "503"}
    assert "required" not in told["requestBody"] or told["requestBody"]["required"] is False


def test_dify_list_value_with_numeric_operator_is_422(dify: Dify) -> None:
    condition = {"name": "year", "comparison_operator": "=", "value": [2024, "x"]}
    with pytest.raises(ValueError, match="422"):
        dify.search("default", "lantern", metadata_condition={"conditions": [condition]})
