"""Knowledge bases of kind http: created only for addresses that the operator allows, and searched with other ones."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.site_search import PAGES, SiteSearchServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.audit import events
from tests.api.problems import assert_problem
from tests.fixtures.mcp import mcp_client
from tests.fixtures.service_warnings import warning_json

SECRET = "swordfish-of-the-site"
RESPONSE = {"items": "results", "text": "snippet", "title": "title", "url": "link", "score": "rank"}
QUESTION = "When is the harbour museum open?"


@pytest.fixture(scope="module")
def site() -> Iterator[SiteSearchServer]:
    with SiteSearchServer(api_key=SECRET) as server:
        yield server


@pytest.fixture(scope="module")
def web() -> Iterator[SiteSearchServer]:
    """Second allowed server, which must not receive the secret of the first."""
    with SiteSearchServer() as server:
        yield server


@pytest.fixture(scope="module")
def service(
    site: SiteSearchServer,
    web: SiteSearchServer,
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    secret = {"header": "X-Api-Key", "value": SECRET}
    whole = {"methods": ["GET", "POST"], "headers": ["X-Plain"]}
    bindings = [
        {"url": f"{site.address}/", "tenants": ["*"], "secrets": {"SITE_SEARCH": secret}, **whole},
        {"url": f"{site.address}/", "tenants": ["ten_01h455vb4pex5vsknk084sn02q"], "secrets": {"OF_ANOTHER": secret}},
        {"url": f"{web.address}/", "tenants": ["*"], **whole},
        {"url": "https://search.example.com/", "tenants": ["*"]},
        {"url": "https://bound.example.com/of-all/", "tenants": ["*"], "params": ["q", "n"]},
        {"url": "https://bound.example.com/of-one/", "tenants": ["ten_01h455vb4pex5vsknk084sn02q"]},
    ]
    given = {"CARREL_HTTP_SOURCES": json.dumps(bindings)}
    settings = build_settings(tmp_path_factory.mktemp("sources"), http_sources=given)
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture
def tenant(service: Service, site: SiteSearchServer, web: SiteSearchServer) -> Tenant:
    site.reset()
    web.reset()
    return service.create_tenant()


def source_at(site: SiteSearchServer, **changes: Any) -> dict[str, Any]:
    source = {
        "url": site.url,
        "params": {"q": "{query}", "n": "{top_k}"},
        "headers": {"X-Api-Key": {"secret": "SITE_SEARCH"}},
        "response": RESPONSE,
    }
    return {name: value for name, value in (source | changes).items() if value is not None}


def make(tenant: Tenant, source: dict[str, Any], *, name: str = "site", **fields: Any) -> dict[str, Any]:
    reply = tenant.admin.post("/v1/knowledge-bases", json={"name": name, "kind": "http", "source": source, **fields})
    assert reply.status_code == 201, reply.text
    made: dict[str, Any] = reply.json()
    return made


def search(tenant: Tenant, path: str = "/v1/search", **asked: Any) -> dict[str, Any]:
    reply = tenant.admin.post(path, json={"query": QUESTION, "timeout_seconds": 30, **asked})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [result["text"] for result in found["results"]]


@pytest.mark.capability("http-source")
def test_http_source_results_equal_site_results(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    found = search(tenant, "/v1/knowledge-bases/site/search", top_k=2)
    assert texts(found) == [PAGES["/opening"][1], PAGES["/tickets"][1]]
    best = found["results"][0]
    address = f"{site.address}/opening"
    assert best["document"] == {
        "id": None,
        "source": address,
        "title": "Opening hours",
        "source_uri": address,
        "source_created_at": None,
        "metadata": {},
    }
    assert (best["chunk_id"], best["chunk_index"], best["total_chunks"]) == (None, 0, 1)
    assert (best["citation"], best["knowledge_base"], best["similarity"]) == (address, "site", None)
    assert best["node_path"] == []
    assert (best["start"], best["end"]) == (0, len(best["text"]))
    assert found["warnings"] == []
    assert "http_sources" in found["timings_ms"]
    (asked,) = site.received
    # The query holds only its keywords: the default transformer is `keywords`.
    assert asked.params == {"q": "harbour museum open", "n": "2"}
    assert asked.headers["x-api-key"] == SECRET


@pytest.mark.capability("http-source-merge")
def test_http_source_is_searched_with_other_knowledge_bases(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    tenant.add_text("The harbour museum was open all night in 1923.")
    tenant.add_text(PAGES["/opening"][1])
    found = search(tenant, top_k=5, explain=True)
    assert texts(found).count(PAGES["/opening"][1]) == 1
    assert {result["knowledge_base"] for result in found["results"]} == {"default", "site"}
    scores = [result["score"] for result in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert max(scores) == 1.0
    explained = {one["knowledge_base"]: one for one in found["explain"]["knowledge_bases"]}
    assert explained["site"]["source_queries"] == ["harbour museum open"]
    assert explained["site"]["plan"] is None
    assert "source_queries" not in explained["default"]


@pytest.mark.capability("http-source-agents")
def test_http_source_results_reach_agents(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    messages = [{"role": "customer", "content": QUESTION}]
    tenant.admin.put("/v1/agents/guide", json={"knowledge_bases": ["site"], "citations": "prefix"}).raise_for_status()
    body = {"messages": messages, "agent_id": "guide", "top_k": 1}
    assert tenant.admin.post("/v1/agent-search", json=body).json() == [
        f"[{site.address}/opening] {PAGES['/opening'][1]}"
    ]
    tenant.admin.patch("/v1/agents/guide", json={"filter": {"year": 2024}}).raise_for_status()
    reply = tenant.admin.post("/v1/agent-search", json=body)
    assert (reply.status_code, reply.json()) == (200, [])


def test_http_source_restricted_key_queries_only_permitted_sources(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    inside, outside = tenant.create_client(knowledge_bases=["site"]), tenant.create_client(knowledge_bases=["default"])
    assert inside.post("/v1/search", json={"query": "ferry"}).json()["results"]
    site.received.clear()
    assert outside.post("/v1/search", json={"query": "ferry"}).json()["results"] == []
    assert outside.post("/v1/knowledge-bases/site/search", json={"query": "ferry"}).status_code == 404
    assert site.received == []


def test_http_source_with_filter_is_skipped_with_warning(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    tenant.add_text("The museum is open.", metadata={"year": 2024})
    found = search(tenant, filter={"year": 2024})
    assert texts(found) == ["The museum is open."]
    assert found["warnings"] == [
        warning_json(
            "http_source_not_filterable",
            "'site' was skipped: a filter cannot be applied to the results of an HTTP source.",
        )
    ]
    assert site.received == []


@pytest.mark.parametrize("threshold", [0.9, "auto"])
def test_http_source_with_threshold_has_warning(tenant: Tenant, site: SiteSearchServer, threshold: float | str) -> None:
    make(tenant, source_at(site))
    found = search(tenant, score_threshold=threshold, knowledge_bases=["site"])
    assert found["results"]
    assert found["warnings"] == [
        warning_json("threshold_not_applied", "score_threshold was not applied to results without a known similarity.")
    ]


def test_http_source_with_vector_alone_is_422(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    reply = tenant.admin.post("/v1/knowledge-bases/site/search", json={"queries": [{"vector": [1.0, 0.5]}]})
    assert assert_problem(reply, 422, "invalid")["errors"][0]["loc"] == ["body", "queries"]


@pytest.mark.capability("http-source-template")
def test_http_source_body_template_is_filled(tenant: Tenant, site: SiteSearchServer) -> None:
    body = {"query": {"match": "{query}"}, "size": "{top_k}", "note": "{query} of {top_k}, {unknown}"}
    response = {"items": "hits.hits", "text": "_source.snippet", "url": "_source.link", "score": "_score"}
    source = source_at(site, url=f"{site.address}/api/query", method="POST", params=None, body=body, response=response)
    make(tenant, source)
    query = 'ferry"}, "size": 99, {top_k} \u00e9'
    found = search(tenant, query=query, transformers=[], top_k=3)
    assert texts(found) == [PAGES["/ferry"][1]]
    (asked,) = site.received
    assert asked.body == {"query": {"match": query}, "size": 3, "note": f"{query} of 3, {{unknown}}"}


@pytest.mark.parametrize(
    "query",
    [
        "ferry&n=0",
        "ferry#",
        "ferry\r\nX-Injected: yes",
        "../../ferry",
        "ferry?x=%00",
        "{top_k} ferry",
        "ferry \U0001f600",
    ],
)
def test_http_source_query_is_only_a_parameter_value(tenant: Tenant, site: SiteSearchServer, query: str) -> None:
    make(tenant, source_at(site))
    search(tenant, query=query, transformers=[])
    (asked,) = site.received
    assert asked.params == {"q": query, "n": "5"}
    assert asked.path == "/search"
    assert set(asked.headers) == {"host", "accept", "accept-encoding", "user-agent", "x-api-key"}


@pytest.mark.capability("http-source-web")
def test_http_source_of_web_search_returns_results_of_domain(tenant: Tenant, web: SiteSearchServer) -> None:
    web.sites = {
        "https://museum.example/opening": "The museum is open from ten to six.",
        "https://elsewhere.example/opening": "The museum is always open.",
    }
    source = {
        "url": f"{web.address}/web",
        "params": {"q": "{query} site:museum.example"},
        "response": {"items": "webPages.value", "text": "snippet", "url": "url"},
        "domains": ["museum.example"],
    }
    make(tenant, source, name="web")
    found = search(tenant)
    assert texts(found) == ["The museum is open from ten to six."]
    assert web.received[0].params["q"] == "harbour museum open site:museum.example"
    # A result from another site is dropped, whatever the query changes in the template.
    found = search(tenant, query="museum site:elsewhere.example", transformers=[])
    assert len(web.search_web(web.received[-1].params["q"])) == 2
    assert texts(found) == ["The museum is open from ten to six."]


FAILURES: list[tuple[Any, str]] = [
    (500, "Its endpoint failed: HTTP 500"),
    (429, "Its endpoint failed: HTTP 429"),
    (404, "Its endpoint refuses: HTTP 404"),
    ("redirect", "Its endpoint refuses: HTTP 302"),
    ("not_json", "Its endpoint failed: its response is not JSON"),
    ("html", "Its endpoint failed: its response is not JSON"),
    ("deep", "Its endpoint failed: its response is not JSON"),
    ("huge", "Its endpoint failed: its response is too long"),
    ("many", "Its endpoint failed: its response has too many values"),
    ("gzip", "Its endpoint failed: its response is compressed, although the request forbids it"),
    ("wrong_shape", "Its endpoint failed: its response has no list of results"),
    ("no_text", "Its endpoint failed: its results have no text"),
    ("disconnect", "Its endpoint failed: no connection"),
    ("never", "Its endpoint did not answer in time"),
    ("drip", "Its endpoint did not answer in time"),
]


@pytest.mark.capability("http-source-failure")
@pytest.mark.parametrize(("how", "reason"), FAILURES, ids=[str(how) for how, _ in FAILURES])
def test_http_source_failure_leaves_other_results(
    tenant: Tenant, site: SiteSearchServer, how: Any, reason: str
) -> None:
    make(tenant, source_at(site, timeout_seconds=0.3 if how in ("never", "drip") else 10))
    tenant.add_text("The harbour museum is old.")
    tries = 2 if how == "disconnect" else 1  # a pooled connection may be closed already
    site.fail(how, times=tries)
    found = search(tenant)
    assert texts(found) == ["The harbour museum is old."]
    assert found["warnings"] == [warning_json("http_source_unavailable", f"'site' was skipped. {reason}.")]
    assert [one.path for one in site.received] == ["/search"] * tries
    site.fail(how, times=tries)
    alone = tenant.admin.post("/v1/knowledge-bases/site/search", json={"query": QUESTION})
    assert_problem(alone, 503, "search_unavailable")


@pytest.mark.capability("http-source-breaker")
def test_http_source_circuit_breaker_opens_after_failures(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    tenant.add_text("The harbour museum is old.")
    site.fail(500, times=100)
    for _ in range(5):
        search(tenant)
    site.received.clear()
    (warning,) = search(tenant)["warnings"]
    assert warning["code"] == "http_source_unavailable"
    assert warning["message"].startswith("'site' was skipped. The http_source endpoint gets no calls for now")
    assert site.received == []
    other = tenant.service.create_tenant()
    make(other, source_at(site))
    site.reset()
    assert search(other)["warnings"] == []


def test_http_source_cookies_are_not_stored(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    site.fail("cookie")
    for _ in range(2):
        search(tenant)
    assert [one.headers.get("cookie") for one in site.received] == [None, None]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"url": "https://elsewhere.example/q"}, "url"),
    ({"url": "http://search.example.com/q"}, "url"),
    ({"url": "https://search.example.com:444/q"}, "url"),
    ({"url": "https://search.example.com.elsewhere.example/q"}, "url"),
    ({"url": "https://search.example.com@elsewhere.example/q"}, "url"),
    ({"url": "https://user:word@search.example.com/q"}, "url"),
    ({"url": "https://elsewhere.example\\@search.example.com/q"}, "url"),
    ({"url": "https://search.example.com/q#part"}, "url"),
    ({"url": "https://search.example.com/q?a=b"}, "url"),
    ({"url": "https://search.example.com/{query}"}, "url"),
    ({"url": "https://search.example.com/\r\nX: y"}, "url"),
    ({"url": "file:///etc/passwd"}, "url"),
    ({"url": "http://169.254.169.254/latest"}, "url"),
    ({"url": "https://bound.example.com/", "headers": None}, "url"),
    ({"url": "https://bound.example.com/of-all", "headers": None}, "url"),
    ({"url": "https://bound.example.com/of-one/q", "headers": None}, "url"),
    ({"url": "https://bound.example.com/of-all/../of-one/q", "headers": None}, "url"),
    ({"url": "https://bound.example.com/of-all/%2e%2e/of-one/q", "headers": None}, "url"),
    ({"url": "https://bound.example.com/of-all/q", "headers": None, "method": "POST"}, "method"),
    ({"url": "https://bound.example.com/of-all/q", "headers": {"X-Plain": "a"}}, "headers"),
    ({"url": "https://bound.example.com/of-all/q"}, "headers"),
    ({"url": "https://bound.example.com/of-all/q", "headers": None, "params": {"q": "{query}", "x": "y"}}, "params"),
    ({"headers": {"X-Plain": {"secret": "SITE_SEARCH"}}}, "headers"),
    ({"headers": {"X-Api-Key": {"secret": "UNKNOWN"}}}, "headers"),
    ({"headers": {"X-Api-Key": {"secret": "OF_ANOTHER"}}}, "headers"),
    ({"headers": {"Host": "elsewhere.example"}}, "headers"),
    ({"headers": {"Cookie": "a=b"}}, "headers"),
    ({"headers": {"Authorization": "Bearer of-somebody"}}, "headers"),
    ({"headers": {"X-Plain": "a\r\nX-Injected: b"}}, "headers"),
    ({"headers": {"X Plain": "a"}}, "headers"),
    ({"headers": {"X-Plain": "a", "x-plain": "b"}}, "headers"),
    ({"body": {"q": "{query}"}}, "body"),
    ({"params": {"q": "fixed"}}, "params"),
    ({"response": {"items": "results[", "text": "snippet"}}, "response"),
    ({"response": {"items": "results", "text": "to_string(@)"}}, "response"),
    ({"response": {"items": "[@, @] | [@, @]", "text": "snippet"}}, "response"),
    ({"domains": ["museum.example"], "response": {"items": "results", "text": "snippet"}}, "domains"),
    ({"method": "POST", "body": {"q": "{query}", "x": "\0"}}, "body"),
    ({"timeout_seconds": 0}, "timeout_seconds"),
]  # fmt: skip


@pytest.mark.capability("http-source-allowlist")
@pytest.mark.parametrize(("changes", "place"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_http_source_address_outside_bindings_is_422(
    tenant: Tenant, site: SiteSearchServer, changes: dict[str, Any], place: str
) -> None:
    body = {"name": "site", "kind": "http", "source": source_at(site, **changes)}
    reply = tenant.admin.post("/v1/knowledge-bases", json=body)
    assert reply.status_code == 422, reply.text
    assert reply.json()["errors"][0]["loc"][:3] == ["body", "source", place]
    assert SECRET not in reply.text
    make(tenant, source_at(site))
    changed = tenant.admin.patch("/v1/knowledge-bases/site", json={"source": body["source"]})
    assert (changed.status_code, changed.json()["errors"]) == (422, reply.json()["errors"])
    assert site.received == []


@pytest.mark.capability("http-source-secret")
def test_http_source_secret_is_sent_to_its_host_only(
    tenant: Tenant, site: SiteSearchServer, web: SiteSearchServer
) -> None:
    body = {"name": "web", "kind": "http", "source": source_at(web)}
    made, unknown = (
        tenant.admin.post("/v1/knowledge-bases", json={**body, "source": source_at(web, headers=headers)})
        for headers in ({"X-Api-Key": {"secret": "SITE_SEARCH"}}, {"X-Api-Key": {"secret": "UNKNOWN"}})
    )
    assert (made.status_code, unknown.status_code) == (422, 422)
    # The reply does not reveal which names exist.
    assert (
        made.text.replace("SITE_SEARCH", "UNKNOWN").partition("request_id")[0]
        == unknown.text.partition("request_id")[0]
    )
    make(tenant, source_at(site))
    moved = tenant.admin.patch("/v1/knowledge-bases/site", json={"source": source_at(web)})
    assert moved.status_code == 422
    search(tenant)
    assert (len(site.received), web.received) == (1, [])


@pytest.mark.capability("http-source-secret")
def test_http_source_secret_is_in_no_reply(tenant: Tenant, site: SiteSearchServer) -> None:
    made = make(tenant, source_at(site))
    assert made["kind"] == "http"
    assert made["source"]["headers"] == {"X-Api-Key": {"secret": "SITE_SEARCH"}}
    assert tenant.admin.get("/v1/knowledge-bases/site").json() == made
    changed = tenant.admin.patch("/v1/knowledge-bases/site", json={"source": source_at(site, timeout_seconds=7)})
    assert (changed.status_code, changed.json()["source"]["timeout_seconds"]) == (200, 7.0)
    told = events(tenant.admin)
    assert [event["action"] for event in told[-2:]] == ["knowledge_base.create", "knowledge_base.update"]
    listed = tenant.admin.get("/v1/knowledge-bases").text
    assert SECRET not in json.dumps([made, told]) + listed


def test_http_source_refuses_documents(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    path, admin = "/v1/knowledge-bases/site", tenant.admin
    refused = [
        admin.post(f"{path}/documents", json={"text": "A text."}),
        admin.post(f"{path}/documents", files={"file": ("a.txt", b"A text.")}),
        admin.post(f"{path}/documents/batch", files={"file": ("a.txt", b"A text.")}),
        admin.post(f"{path}/reindex"),
        admin.post(f"{path}/reindex/rollback"),
        admin.patch(path, json={"metadata_filter": {"year": 2024}}),
    ]
    for reply in refused:
        assert_problem(reply, 409, "no_document_store")
    assert admin.get(f"{path}/documents").json() == {"items": [], "next_cursor": None}
    described = admin.get(path).json()
    assert (described["document_count"], described["chunk_count"], described["index"]["problem"]) == (0, 0, None)
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404


@pytest.mark.parametrize(
    "fields",
    [{"kind": "documents"}, {"source": None}, {"metadata_filter": {"year": 2024}}, {"chunking": {"max_tokens": 100}}],
    ids=str,
)
def test_http_source_fields_depend_on_kind(tenant: Tenant, site: SiteSearchServer, fields: dict[str, Any]) -> None:
    body = {"name": "site", "kind": "http", "source": source_at(site), **fields}
    assert tenant.admin.post("/v1/knowledge-bases", json=body).status_code == 422
    reply = tenant.admin.patch("/v1/knowledge-bases/default", json={"source": source_at(site)})
    assert reply.status_code == 422


def test_http_source_of_operator_serves_all_tenants(tenant: Tenant, site: SiteSearchServer) -> None:
    body = {"name": "default", "kind": "http", "source": source_at(site)}
    made = tenant.service.operator.post("/v1/knowledge-bases", json=body)
    assert made.status_code == 201, made.text
    try:
        tenant.add_text("The harbour museum is old.")
        found = search(tenant)
        assert set(texts(found)) > {"The harbour museum is old.", PAGES["/opening"][1]}
        assert "source" not in tenant.admin.get("/v1/knowledge-bases/default").json()
    finally:
        tenant.service.operator.delete("/v1/knowledge-bases/default").raise_for_status()


def test_http_source_results_have_no_ids_for_agents(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    tenant.add_text("The harbour museum is closed on Mondays.")
    with mcp_client() as process:
        client = process.of(tenant)
        (found,) = client.call("search", query=QUESTION)["results"]
        assert "closed on Mondays" in client.call("fetch", id=found["id"])["text"]
        passages = client.call("search_knowledge", query=QUESTION)["results"]
    (inside,) = [one["document"] for one in passages if one["knowledge_base"] == "default"]
    assert inside == found
    outside = [one["document"] for one in passages if one["knowledge_base"] == "site"]
    assert {"id": None, "title": PAGES["/opening"][0], "url": f"{site.address}/opening"} in outside
    assert all(one["id"] is None for one in outside)


def test_http_source_results_have_no_ids_for_dify(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site))
    reply = tenant.admin.post("/dify/retrieval", json={"knowledge_id": "site", "query": QUESTION})
    best = reply.json()["records"][0]
    assert best["content"] == PAGES["/opening"][1]
    assert best["metadata"]["source_uri"] == f"{site.address}/opening"
    assert not {"document_id", "chunk_id"} & best["metadata"].keys()


def test_search_reply_that_repeats_the_secret_is_left_out(tenant: Tenant, site: SiteSearchServer) -> None:
    make(tenant, source_at(site, url=f"{site.address}/echo"))
    reply = tenant.admin.post("/v1/search", json={"query": QUESTION, "timeout_seconds": 30})
    assert SECRET not in reply.text
    assert "repeats the secret" in reply.text
    assert site.received[0].headers["x-api-key"] == SECRET


def test_create_address_of_a_binding_is_stored(tenant: Tenant, site: SiteSearchServer) -> None:
    bound = source_at(site, url="https://bound.example.com/of-all/search", headers=None)
    assert make(tenant, bound)["source"]["url"] == bound["url"]
