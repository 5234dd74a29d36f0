"""Request templates for each endpoint.

A new endpoint needs its templates here, and its fields in ``fields.py``. Otherwise a test lists what is missing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.api.console.console_routes import SCREENS
from proofs.isolation.fields import PATH_FIELDS, PLAIN_FIELDS
from proofs.isolation.routes import RouteEndpoint

SECRET = "Quetzalcoatlus"
PLACEHOLDER = re.compile(r"<([a-z_]+)>")


@dataclass(frozen=True)
class RequestTemplate:
    """Template of a request to an endpoint. A name in angle brackets, such as ``<document>``, is replaced by an id.

    With ``archive``, the body is an archive of a knowledge base. ``needs`` names objects that must exist although the
    request has no id of them.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    form: Mapping[str, str] | None = None
    archive: bool = False
    needs: tuple[str, ...] = ()

    def list_id_fields(self) -> Iterator[str]:
        """Yield the names of the fields that contain an id."""
        yield from _iter_id_fields(self.query)
        yield from _iter_id_fields(self.json)
        yield from _iter_id_fields(self.form)


def _iter_id_fields(value: Any) -> Iterator[str]:
    items = (
        value.items()
        if isinstance(value, Mapping)
        else ((None, item) for item in value)
        if isinstance(value, list)
        else ()
    )
    for name, inner in items:
        if PLACEHOLDER.search(str(inner)):
            if name is not None:
                yield name
            yield from _iter_id_fields(inner)


QUERY_BODY = {"query": SECRET}
SCOPED_SEARCHES = (
    RequestTemplate(json={**QUERY_BODY, "scope": {"user_id": "<user_id>"}}),
    RequestTemplate(json={**QUERY_BODY, "scope": {"chat_id": "<chat_id>", "agent_id": "<agent_id>"}}),
    RequestTemplate(json={**QUERY_BODY, "scope": {"user_id": "<user_id>", "chat_id": "<chat_id>"}}),
)
FILTERED_SEARCH = RequestTemplate(json={**QUERY_BODY, "filter": {"$document_id": "<document>"}})
ANSWER_BODY = {**QUERY_BODY, "stream": False}
CONVERSATION = {"messages": [{"role": "customer", "content": SECRET}]}
AGENT_FIELDS = {"agent_id": "<agent_id>", "session_id": "<chat_id>"}
AGENT_SEARCHES = (
    RequestTemplate(json=CONVERSATION),
    RequestTemplate(json={**CONVERSATION, **AGENT_FIELDS}),
    RequestTemplate(json={**CONVERSATION, **AGENT_FIELDS, "user_id": "<user_id>"}),
)
ANSWER_TEMPLATES = tuple(
    RequestTemplate(json={**ANSWER_BODY, **template.json})
    for template in (
        RequestTemplate(json=QUERY_BODY),
        FILTERED_SEARCH,
        *SCOPED_SEARCHES,
        RequestTemplate(json=AGENT_FIELDS),
    )
)
KB = "/v1/knowledge-bases/{kb}"
MCP = "POST /mcp"
DIFY = "POST /dify/retrieval"
TEXT_BODY = {"text": "A text <fresh> to keep."}
STORES = "/openai/v1/vector_stores"
STORE = f"{STORES}/{{kb}}"


def build_mcp_message(method: str, **params: Any) -> RequestTemplate:
    """Build a request with a message of the Model Context Protocol."""
    return RequestTemplate(json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def build_tool_call(name: str, **arguments: Any) -> RequestTemplate:
    """Build a request that calls a tool of the MCP server."""
    return build_mcp_message("tools/call", name=name, arguments=arguments)


TEMPLATES: Mapping[str, tuple[RequestTemplate, ...]] = {
    "POST /v1/tenants": (RequestTemplate(json={"name": "a tenant"}),),
    "PATCH /v1/tenants/{tenant}": (
        RequestTemplate(json={"name": "renamed"}),
        RequestTemplate(json={"quotas": {"documents": 10_000, "searches_per_second": 1000}}),
        RequestTemplate(json={"sql_views": True}),
    ),
    "GET /v1/deletions": (
        RequestTemplate(needs=("deletion",)),
        RequestTemplate(query={"knowledge_base": "<kb>"}, needs=("deletion",)),
    ),
    "GET /v1/jobs": (
        RequestTemplate(needs=("job",)),
        RequestTemplate(query={"document": "<document>"}, needs=("job",)),
        RequestTemplate(query={"knowledge_base": "<kb>"}, needs=("job",)),
    ),
    "GET /v1/jobs/{job}": (RequestTemplate(),),
    "POST /v1/jobs/{job}/retry": (RequestTemplate(),),
    "POST /v1/jobs/retry": (RequestTemplate(query={"knowledge_base": "<kb>"}, needs=("job",)),),
    "GET /v1/usage": (RequestTemplate(), RequestTemplate(query={"by": "key"})),
    "POST /v1/api-keys": (
        RequestTemplate(json={"name": "a key", "role": "reader"}),
        RequestTemplate(json={"name": "a key", "role": "reader", "knowledge_bases": ["<kb>"]}),
        RequestTemplate(json={"name": "a key", "role": "reader", "user_id": "<user_id>"}),
    ),
    "POST /v1/api-keys/{api_key}/rotate": (RequestTemplate(), RequestTemplate(json={"overlap_seconds": 60})),
    "POST /v1/knowledge-bases": (RequestTemplate(json={"name": "<taken>"}),),
    f"PATCH {KB}": (
        RequestTemplate(json={"title": "renamed"}),
        RequestTemplate(json={"metadata_filter": {"department": "hr"}}),
    ),
    f"GET {KB}/prompts": (
        RequestTemplate(needs=("number",)),
        RequestTemplate(query={"prompt": "rewrite"}, needs=("number",)),
    ),
    f"POST {KB}/prompts/{{prompt}}/{{number}}/pin": (RequestTemplate(),),
    f"POST {KB}/sql-view": (RequestTemplate(), RequestTemplate(json={"collection": "found", "content_key": "body"})),
    f"GET {KB}/sql-view": (RequestTemplate(needs=("sql_view",)),),
    f"GET {KB}/external-search": (RequestTemplate(), RequestTemplate(query={"base_url": "https://found.example"})),
    "GET /v1/agents/{agent_id}/external-search": (RequestTemplate(),),
    f"DELETE {KB}/sql-view": (RequestTemplate(needs=("sql_view",)),),
    f"POST {KB}/reindex": (RequestTemplate(), RequestTemplate(json={"chunking": {"max_tokens": 100}})),
    f"POST {KB}/enrichment/estimate": (RequestTemplate(),),
    f"POST {KB}/enrichment/run": (RequestTemplate(needs=("enriching",)),),
    f"POST {KB}/import": (RequestTemplate(archive=True),),
    f"DELETE {KB}/reindex": (RequestTemplate(needs=("building",)),),
    f"POST {KB}/reindex/rollback": (RequestTemplate(needs=("retired",)),),
    f"POST {KB}/documents": (
        RequestTemplate(json=TEXT_BODY),
        RequestTemplate(json={**TEXT_BODY, "external_id": "<external_id>"}),
        RequestTemplate(json={**TEXT_BODY, "user_id": "<user_id>"}),
        RequestTemplate(json={**TEXT_BODY, "chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
        RequestTemplate(json={**TEXT_BODY, "user_id": "<user_id>", "chat_id": "<chat_id>"}),
        RequestTemplate(form={"external_id": "<external_id>"}),
    ),
    f"POST {KB}/documents/batch": (
        RequestTemplate(form={}),
        RequestTemplate(form={"user_id": "<user_id>"}),
        RequestTemplate(form={"chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
    ),
    f"DELETE {KB}/documents": (
        RequestTemplate(query={"ids": "<document>"}),
        RequestTemplate(query={"external_id": "<external_id>"}),
        RequestTemplate(query={"filter": '{"$document_id": "<document>"}'}),
        RequestTemplate(query={"filter": "{}", "confirm": "<kb_name>"}),
    ),
    f"POST {KB}/documents/{{document}}/reindex": (RequestTemplate(),),
    f"GET {KB}/events": (RequestTemplate(query={"wait": "0"}),),
    f"GET {KB}/documents": (
        RequestTemplate(),
        RequestTemplate(query={"external_id": "<external_id>"}),
        RequestTemplate(query={"user_id": "<user_id>"}),
        RequestTemplate(query={"chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
        RequestTemplate(query={"user_id": "<user_id>", "chat_id": "<chat_id>"}),
        RequestTemplate(query={"filter": '{"$document_id": "<document>"}'}),
    ),
    f"PATCH {KB}/documents/{{document}}": (
        RequestTemplate(json={"title": "renamed"}),
        RequestTemplate(json={"scope": {"level": "user", "user_id": "<promoted_user>"}}),
        RequestTemplate(json={"scope": {"level": "chat_shared", "chat_id": "<promoted_chat>"}}),
    ),
    f"GET {KB}/documents/{{document}}": (RequestTemplate(), RequestTemplate(query={"include": "tree,chunks"})),
    f"PUT {KB}/documents/{{document}}/chunks/{{chunk}}": (
        RequestTemplate(json={"text": "A text."}, needs=("provided_chunks",)),
    ),
    f"DELETE {KB}/documents/{{document}}/chunks/{{chunk}}": (RequestTemplate(needs=("provided_chunks",)),),
    f"POST {KB}/documents/{{document}}/prepare-reindex": (RequestTemplate(),),
    f"GET {KB}/chunks": (
        RequestTemplate(),
        RequestTemplate(query={"user_id": "<user_id>"}),
        RequestTemplate(query={"chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
        RequestTemplate(query={"user_id": "<user_id>", "chat_id": "<chat_id>"}),
        RequestTemplate(query={"filter": '{"$document_id": "<document>"}'}),
    ),
    f"GET {KB}/entities": (
        RequestTemplate(),
        RequestTemplate(query={"prefix": SECRET}),
        RequestTemplate(query={"q": SECRET}),
        RequestTemplate(query={"user_id": "<user_id>"}),
        RequestTemplate(query={"chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
        RequestTemplate(query={"user_id": "<user_id>", "chat_id": "<chat_id>"}),
    ),
    f"POST {KB}/entities/merge": (RequestTemplate(json={"entities": ["<entity>"], "into": "<entity>"}),),
    f"POST {KB}/entities/split": (
        RequestTemplate(json={"entity": "<entity>", "documents": ["<document>"], "name": "Another name"}),
    ),
    f"GET {KB}/entities/corrections": (RequestTemplate(),),
    f"DELETE {KB}/entities/corrections/{{correction}}": (RequestTemplate(),),
    f"GET {KB}/entities/{{entity}}": (
        RequestTemplate(),
        RequestTemplate(query={"user_id": "<user_id>"}),
        RequestTemplate(query={"chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
        RequestTemplate(query={"user_id": "<user_id>", "chat_id": "<chat_id>"}),
    ),
    f"GET {KB}/documents/{{document}}/graph": (RequestTemplate(),),
    f"GET {KB}/documents/{{document}}/chunks": (RequestTemplate(), RequestTemplate(query={"node": "<node>"})),
    "GET /v1/tenants/{tenant}/audit-events": (
        RequestTemplate(query={"actor": "<api_key>"}),
        RequestTemplate(query={"object_id": "<document>"}),
    ),
    "GET /v1/audit-events": (
        RequestTemplate(query={"format": "jsonl", "object_id": "<document>"}),
        RequestTemplate(query={"actor": "<api_key>"}),
        *(
            RequestTemplate(query={"object_id": f"<{place}>"})
            for place in ("document", "api_key", "tenant", "deletion")
        ),
    ),
    f"POST {KB}/search": (
        RequestTemplate(json={**QUERY_BODY, "transformers": ["keywords", "hyde"]}),
        RequestTemplate(json=QUERY_BODY),
        FILTERED_SEARCH,
        *SCOPED_SEARCHES,
    ),
    "POST /v1/search": (
        RequestTemplate(json=QUERY_BODY),
        RequestTemplate(json={**QUERY_BODY, "knowledge_bases": ["<kb>"]}),
        FILTERED_SEARCH,
        *SCOPED_SEARCHES,
    ),
    f"POST {KB}/answer": ANSWER_TEMPLATES,
    "POST /v1/answer": (RequestTemplate(json={**ANSWER_BODY, "knowledge_bases": ["<kb>"]}), *ANSWER_TEMPLATES),
    "POST /v1/preview": (
        RequestTemplate(json={"text": "A text."}),
        RequestTemplate(json={"text": "A text.", "knowledge_base": "<kb>"}),
        RequestTemplate(form={"knowledge_base": "<kb>"}),
    ),
    f"POST {KB}/agent-search": AGENT_SEARCHES,
    "POST /v1/agent-search": AGENT_SEARCHES,
    "POST /v1/webhooks": (RequestTemplate(json={"url": "http://127.0.0.1:9/", "events": ["quota.near"]}),),
    "PATCH /v1/webhooks/{webhook}": (RequestTemplate(json={"description": "renamed"}),),
    "POST /v1/webhooks/{webhook}/rotate": (RequestTemplate(), RequestTemplate(json={"overlap_seconds": 60})),
    "POST /v1/webhooks/{webhook}/test": (RequestTemplate(),),
    "POST /v1/webhooks/{webhook}/deliveries/{delivery}/replay": (RequestTemplate(),),
    "POST /v1/evaluations": (
        RequestTemplate(json={"set": "<golden_set>", "settings": [{}]}, needs=("item",)),
        RequestTemplate(json={"set": "<golden_set>", "settings": [{"knowledge_bases": ["<kb>"]}]}, needs=("item",)),
    ),
    "GET /v1/evaluations": (RequestTemplate(), RequestTemplate(query={"set": "<golden_set>"})),
    "POST /v1/golden-sets": (RequestTemplate(json={"name": "a golden set"}),),
    "PATCH /v1/golden-sets/{golden_set}": (RequestTemplate(json={"name": "renamed"}),),
    "POST /v1/golden-sets/{golden_set}/items": (
        RequestTemplate(json={"items": [{"query": SECRET, "relevant": [{"document": "<document>"}]}]}),
        RequestTemplate(
            json={"items": [{"query": SECRET, "relevant": [{"document": "<document>", "chunk": "<chunk>"}]}]}
        ),
    ),
    "DELETE /v1/golden-sets/{golden_set}/items/{item}/relevant": (
        RequestTemplate(query={"document": "<document>"}),
        RequestTemplate(query={"document": "<document>", "chunk": "<chunk>"}),
    ),
    "POST /v1/agents/{agent_id}/prompts/{prompt}/{number}/pin": (RequestTemplate(),),
    MCP: (
        build_tool_call("search", **QUERY_BODY),
        build_tool_call("fetch", id="<document>"),
        build_tool_call("search_knowledge", **QUERY_BODY),
        build_tool_call("search_knowledge", **QUERY_BODY, knowledge_bases=["<kb>"]),
        build_tool_call("search_knowledge", **QUERY_BODY, filter={"$document_id": "<document>"}),
        build_tool_call("list_knowledge_bases"),
        build_mcp_message("tools/list"),
        build_mcp_message("resources/list"),
        build_mcp_message("resources/templates/list"),
        build_mcp_message("resources/read", uri="carrel://documents/<document>"),
        build_mcp_message("resources/read", uri="carrel://documents/<document>/from/3"),
    ),
    DIFY: (
        RequestTemplate(json={"knowledge_id": "<kb>", **QUERY_BODY}),
        RequestTemplate(
            json={
                "knowledge_id": "<kb>",
                **QUERY_BODY,
                "retrieval_setting": {"top_k": 3, "score_threshold": None},
                "metadata_condition": {
                    "conditions": [{"name": ["$document_id"], "comparison_operator": "is", "value": "<document>"}]
                },
            }
        ),
    ),
    "PUT /v1/agents/{agent_id}": (
        RequestTemplate(json={"knowledge_bases": ["<kb>"], "max_top_k": 3}),
        RequestTemplate(json={"knowledge_bases": ["<kb>"], "filter": {"$document_id": "<document>"}}),
    ),
    "PATCH /v1/agents/{agent_id}": (
        RequestTemplate(json={"max_top_k": 4}),
        RequestTemplate(json={"knowledge_bases": ["<kb>"], "filter": {"$document_id": "<document>"}}),
    ),
    "POST /openai/v1/files": (RequestTemplate(form={"purpose": "assistants"}),),
    f"POST {STORES}": (
        RequestTemplate(json={"name": "A store"}),
        RequestTemplate(json={"name": "A store", "file_ids": ["<file>"]}),
    ),
    f"POST {STORE}": (RequestTemplate(json={"name": "renamed"}), RequestTemplate(json={"metadata": {"a": "b"}})),
    f"GET {STORE}/files": (
        RequestTemplate(),
        RequestTemplate(query={"after": "<vector_store_file>", "filter": "completed"}),
        RequestTemplate(query={"before": "<document>"}),
    ),
    f"POST {STORE}/files": (RequestTemplate(json={"file_id": "<file>"}),),
    f"GET {STORE}/files/{{vector_store_file}}": (RequestTemplate(),),
    f"POST {STORE}/files/{{vector_store_file}}": (RequestTemplate(json={"attributes": {"a": "b"}}),),
    f"POST {STORE}/file_batches": (
        RequestTemplate(json={"file_ids": ["<file>"]}),
        RequestTemplate(json={"files": [{"file_id": "<file>"}]}),
    ),
    f"GET {STORE}/file_batches/{{batch}}/files": (
        RequestTemplate(),
        RequestTemplate(query={"after": "<vector_store_file>"}),
    ),
    f"POST {STORE}/file_batches/{{batch}}/cancel": (RequestTemplate(),),
    f"POST {STORE}/search": (
        RequestTemplate(json=QUERY_BODY),
        RequestTemplate(json={**QUERY_BODY, "filters": {"type": "eq", "key": "$document_id", "value": "<document>"}}),
    ),
}


@dataclass(frozen=True)
class EndpointCase:
    """Endpoint with one of its request templates."""

    endpoint: RouteEndpoint
    template: RequestTemplate
    number: int

    def __str__(self) -> str:
        return f"{self.endpoint.name} {self.number}"

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the ids in path, query and body."""
        places = PLACEHOLDER.findall(f"{self.template}")
        return tuple(dict.fromkeys([*re.findall(r"{(\w+)}", self.endpoint.path), *places]) - {"fresh": None}.keys())

    @property
    def is_read_only(self) -> bool:
        """Whether the request changes nothing, so that the objects can be used again."""
        return self.endpoint.method == "GET" or self.is_search or self.endpoint.name == MCP

    @property
    def is_search(self) -> bool:
        """Whether the reply contains results of a search."""
        is_post = self.endpoint.method == "POST"
        return (is_post and self.endpoint.path.endswith(("search", "answer"))) or self.endpoint.name == DIFY

    @property
    def is_agent_bound(self) -> bool:
        """Whether the settings of an agent apply. They apply to every API key of the tenant."""
        names_agent = isinstance(self.template.json, dict) and "agent_id" in self.template.json
        return self.endpoint.path.endswith(("agent-search", "answer")) and names_agent

    @property
    def is_operator_only(self) -> bool:
        """Whether only the operator may call the endpoint."""
        return self.endpoint.path.startswith("/v1/tenants")

    @property
    def spans_tenants_for_operator(self) -> bool:
        """Whether no object is foreign to the operator: tenants, and jobs of the queue."""
        return self.endpoint.path.startswith(("/v1/tenants", "/v1/jobs"))


def list_cases(endpoint: RouteEndpoint) -> list[EndpointCase]:
    """Return the cases of an endpoint. Without templates there is one case without query and body."""
    templates = TEMPLATES.get(endpoint.name, (RequestTemplate(),))
    return [EndpointCase(endpoint, template, number) for number, template in enumerate(templates)]


def find_unknown_fields(endpoint: RouteEndpoint) -> list[str]:
    """Return the parts of an endpoint that the proof does not cover: fields, a body, or a mounted application.

    A path field is covered if PATH_FIELDS contains it. A query or body field is covered if it is a plain field or an id
    field of a template.
    """
    if endpoint.method == "*":
        return [f"{endpoint.path}: a mounted application without visible routes"]
    named = {name for template in TEMPLATES.get(endpoint.name, ()) for name in template.list_id_fields()}
    is_page = endpoint.path.split("/")[1] in SCREENS  # all paths of a screen have the same page
    path_fields = PATH_FIELDS | {"path"} if is_page else PATH_FIELDS
    missing = [f"path: {name}" for name in re.findall(r"{(\w+)[^}]*}", endpoint.path) if name not in path_fields]
    missing += [f"query: {name}" for name in sorted(endpoint.query_fields - PLAIN_FIELDS - named)]
    missing += [f"body: {name}" for name in sorted(endpoint.body_fields - PLAIN_FIELDS - named)]
    if endpoint.method in ("POST", "PUT", "PATCH") and endpoint.name not in TEMPLATES:
        missing.append("a body")
    return missing
