"""What is sent to each endpoint: where ids stand, and which names are no ids.

An endpoint that is added must find its words here, or the isolation test fails and names the missing ones.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from proofs.isolation.routes import Endpoint

SECRET = "Quetzalcoatlus"
PLACE = re.compile(r"<([a-z_]+)>")
# What a path may hold; each is made in proofs/isolation/tenants.py.
PATH_FIELDS = frozenset(
    """kb document node chunk api_key tenant deletion n agent_id prompt number file vector_store_file batch
    webhook delivery""".split()  # noqa: SIM905
)
# Names in queries and bodies that name nothing that belongs to a tenant. `after` and `before` of files and vector
# stores are the time that an id has in it, whether or not there is such a thing.
PLAIN = frozenset(
    """limit cursor wait status name title description model dimensions strategy strategy_options max_tokens
    overlap_tokens top_k metadata metadata_filter language chunking embedding retrieval role expires_at source_uri
    source_created_at encoding media_type text file query queries messages content score_threshold
    timeout_seconds offsets depth level dynamic chunks vector page section_titles options
    action from to format overlap_seconds by quotas documents stored_bytes upload_bytes embedding_tokens_per_day
    searches_per_second concurrent_ingestions sql_views
    agents concurrent_searches event_streams
    knowledge_bases api_keys prompt_versions webhooks kept_answers publications files file_batches batch_files
    chats
    exclude_dynamic expand expand_options window max_characters return_vectors explain merge image
    rerank transformers rewrite_prompt answer_prompt prompt session_scope max_top_k max_messages citations
    max_snippet_chars stream max_context_tokens compress
    collection content_key
    kind source url method params headers body items score response domains secret
    jsonrpc retrieval_setting logical_operator comparison_operator
    after before order filter purpose expires_after expires_after[anchor] expires_after[seconds] anchor days
    chunking_strategy static
    max_chunk_size_tokens chunk_overlap_tokens attributes filters key type value max_num_results ranking_options ranker
    hybrid_search embedding_weight text_weight rewrite_query
    events enabled routing route_top_n top_n always scale descriptions examples description_weight""".split()  # noqa: SIM905  (a list of words)
)


@dataclass(frozen=True)
class Template:
    """One way to call an endpoint; ``<document>`` and the like stand for ids, ``archive`` for one of a knowledge base.

    ``needs`` names what must be there besides, although nothing of the call leads to it.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    form: Mapping[str, str] | None = None
    archive: bool = False
    needs: tuple[str, ...] = ()

    def names(self) -> Iterator[str]:
        """The names that lead to an id."""
        yield from _leading(self.query)
        yield from _leading(self.json)
        yield from _leading(self.form)


def _leading(value: Any) -> Iterator[str]:
    items = (
        value.items()
        if isinstance(value, Mapping)
        else ((None, one) for one in value)
        if isinstance(value, list)
        else ()
    )
    for name, inner in items:
        if PLACE.search(str(inner)):
            if name is not None:
                yield name
            yield from _leading(inner)


ASK = {"query": SECRET}
SCOPES = (
    Template(json={**ASK, "scope": {"user_id": "<user_id>"}}),
    Template(json={**ASK, "scope": {"chat_id": "<chat_id>", "agent_id": "<agent_id>"}}),
)
BY_DOCUMENT = Template(json={**ASK, "filter": {"$document_id": "<document>"}})
ANSWER = {**ASK, "stream": False}
ANSWERS = tuple(Template(json={**ANSWER, **one.json}) for one in (Template(json=ASK), BY_DOCUMENT, *SCOPES))
CONVERSATION = {"messages": [{"role": "customer", "content": SECRET}]}
OF_AN_AGENT = {**CONVERSATION, "agent_id": "<agent_id>", "session_id": "<chat_id>"}
KB = "/v1/knowledge-bases/{kb}"
MCP = "POST /mcp"
DIFY = "POST /dify/retrieval"
TEXT = {"text": "A text <fresh> to keep."}
STORES = "/openai/v1/vector_stores"
STORE = f"{STORES}/{{kb}}"


def message(method: str, **params: Any) -> Template:
    """A message of the Model Context Protocol."""
    return Template(json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def tool(name: str, **arguments: Any) -> Template:
    """A call of one of its tools."""
    return message("tools/call", name=name, arguments=arguments)


TEMPLATES: Mapping[str, tuple[Template, ...]] = {
    "POST /v1/tenants": (Template(json={"name": "a tenant"}),),
    "PATCH /v1/tenants/{tenant}": (
        Template(json={"name": "renamed"}),
        Template(json={"quotas": {"documents": 10_000, "searches_per_second": 1000}}),
        Template(json={"sql_views": True}),
    ),
    "GET /v1/usage": (Template(), Template(query={"by": "key"})),
    "POST /v1/api-keys": (
        Template(json={"name": "a key", "role": "reader"}),
        Template(json={"name": "a key", "role": "reader", "knowledge_bases": ["<kb>"]}),
        Template(json={"name": "a key", "role": "reader", "user_id": "<user_id>"}),
    ),
    "POST /v1/api-keys/{api_key}/rotate": (Template(), Template(json={"overlap_seconds": 60})),
    "POST /v1/knowledge-bases": (Template(json={"name": "<taken>"}),),
    f"PATCH {KB}": (Template(json={"title": "renamed"}), Template(json={"metadata_filter": {"department": "hr"}})),
    f"GET {KB}/prompts": (Template(needs=("number",)), Template(query={"prompt": "rewrite"}, needs=("number",))),
    f"POST {KB}/prompts/{{prompt}}/{{number}}/pin": (Template(),),
    f"POST {KB}/sql-view": (Template(), Template(json={"collection": "found", "content_key": "body"})),
    f"GET {KB}/sql-view": (Template(needs=("sql_view",)),),
    f"DELETE {KB}/sql-view": (Template(needs=("sql_view",)),),
    f"POST {KB}/reindex": (Template(), Template(json={"chunking": {"max_tokens": 100}})),
    f"POST {KB}/import": (Template(archive=True),),
    f"DELETE {KB}/reindex": (Template(needs=("building",)),),
    f"POST {KB}/reindex/rollback": (Template(needs=("retired",)),),
    f"POST {KB}/documents": (
        Template(json=TEXT),
        Template(json={**TEXT, "external_id": "<external_id>"}),
        Template(json={**TEXT, "user_id": "<user_id>"}),
        Template(json={**TEXT, "chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
        Template(form={"external_id": "<external_id>"}),
    ),
    f"POST {KB}/documents/batch": (
        Template(form={}),
        Template(form={"user_id": "<user_id>"}),
        Template(form={"chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
    ),
    f"DELETE {KB}/documents": (
        Template(query={"ids": "<document>"}),
        Template(query={"external_id": "<external_id>"}),
        Template(query={"filter": '{"$document_id": "<document>"}'}),
        Template(query={"filter": "{}", "confirm": "<kb_name>"}),
    ),
    f"POST {KB}/documents/{{document}}/reindex": (Template(),),
    f"GET {KB}/documents": (
        Template(),
        Template(query={"external_id": "<external_id>"}),
        Template(query={"user_id": "<user_id>"}),
        Template(query={"chat_id": "<chat_id>", "agent_id": "<agent_id>"}),
        Template(query={"filter": '{"$document_id": "<document>"}'}),
    ),
    f"PATCH {KB}/documents/{{document}}": (
        Template(json={"title": "renamed"}),
        Template(json={"scope": {"level": "user", "user_id": "<promoted_user>"}}),
        Template(json={"scope": {"level": "chat_shared", "chat_id": "<promoted_chat>"}}),
    ),
    f"GET {KB}/documents/{{document}}/chunks": (Template(), Template(query={"node": "<node>"})),
    "GET /v1/tenants/{tenant}/audit-events": (
        Template(query={"actor": "<api_key>"}),
        Template(query={"object_id": "<document>"}),
    ),
    "GET /v1/audit-events": (
        Template(query={"format": "jsonl", "object_id": "<document>"}),
        Template(query={"actor": "<api_key>"}),
        *(Template(query={"object_id": f"<{place}>"}) for place in ("document", "api_key", "tenant", "deletion")),
    ),
    f"POST {KB}/search": (
        Template(json={**ASK, "transformers": ["keywords", "hyde"]}),
        Template(json=ASK),
        BY_DOCUMENT,
        *SCOPES,
    ),
    "POST /v1/search": (Template(json=ASK), Template(json={**ASK, "knowledge_bases": ["<kb>"]}), BY_DOCUMENT, *SCOPES),
    f"POST {KB}/answer": ANSWERS,
    "POST /v1/answer": (Template(json={**ANSWER, "knowledge_bases": ["<kb>"]}), *ANSWERS),
    "POST /v1/preview": (
        Template(json={"text": "A text."}),
        Template(json={"text": "A text.", "knowledge_base": "<kb>"}),
        Template(form={"knowledge_base": "<kb>"}),
    ),
    f"POST {KB}/agent-search": (Template(json=CONVERSATION), Template(json=OF_AN_AGENT)),
    "POST /v1/agent-search": (Template(json=CONVERSATION), Template(json=OF_AN_AGENT)),
    "POST /v1/webhooks": (Template(json={"url": "http://127.0.0.1:9/", "events": ["quota.near"]}),),
    "PATCH /v1/webhooks/{webhook}": (Template(json={"description": "renamed"}),),
    "POST /v1/webhooks/{webhook}/rotate": (Template(), Template(json={"overlap_seconds": 60})),
    "POST /v1/webhooks/{webhook}/test": (Template(),),
    "POST /v1/webhooks/{webhook}/deliveries/{delivery}/replay": (Template(),),
    "POST /v1/agents/{agent_id}/prompts/{prompt}/{number}/pin": (Template(),),
    MCP: (
        tool("search", **ASK),
        tool("fetch", id="<document>"),
        tool("search_knowledge", **ASK),
        tool("search_knowledge", **ASK, knowledge_bases=["<kb>"]),
        tool("search_knowledge", **ASK, filter={"$document_id": "<document>"}),
        tool("list_knowledge_bases"),
        message("tools/list"),
        message("resources/list"),
        message("resources/templates/list"),
        message("resources/read", uri="carrel://documents/<document>"),
        message("resources/read", uri="carrel://documents/<document>/from/3"),
    ),
    DIFY: (
        Template(json={"knowledge_id": "<kb>", **ASK}),
        Template(
            json={
                "knowledge_id": "<kb>",
                **ASK,
                "retrieval_setting": {"top_k": 3, "score_threshold": None},
                "metadata_condition": {
                    "conditions": [{"name": ["$document_id"], "comparison_operator": "is", "value": "<document>"}]
                },
            }
        ),
    ),
    "PUT /v1/agents/{agent_id}": (
        Template(json={"knowledge_bases": ["<kb>"], "max_top_k": 3}),
        Template(json={"knowledge_bases": ["<kb>"], "filter": {"$document_id": "<document>"}}),
    ),
    "PATCH /v1/agents/{agent_id}": (
        Template(json={"max_top_k": 4}),
        Template(json={"knowledge_bases": ["<kb>"], "filter": {"$document_id": "<document>"}}),
    ),
    "POST /openai/v1/files": (Template(form={"purpose": "assistants"}),),
    f"POST {STORES}": (Template(json={"name": "A store"}), Template(json={"name": "A store", "file_ids": ["<file>"]})),
    f"POST {STORE}": (Template(json={"name": "renamed"}), Template(json={"metadata": {"a": "b"}})),
    f"GET {STORE}/files": (
        Template(),
        Template(query={"after": "<vector_store_file>", "filter": "completed"}),
        Template(query={"before": "<document>"}),
    ),
    f"POST {STORE}/files": (Template(json={"file_id": "<file>"}),),
    f"GET {STORE}/files/{{vector_store_file}}": (Template(),),
    f"POST {STORE}/files/{{vector_store_file}}": (Template(json={"attributes": {"a": "b"}}),),
    f"POST {STORE}/file_batches": (
        Template(json={"file_ids": ["<file>"]}),
        Template(json={"files": [{"file_id": "<file>"}]}),
    ),
    f"GET {STORE}/file_batches/{{batch}}/files": (Template(), Template(query={"after": "<vector_store_file>"})),
    f"POST {STORE}/file_batches/{{batch}}/cancel": (Template(),),
    f"POST {STORE}/search": (
        Template(json=ASK),
        Template(json={**ASK, "filters": {"type": "eq", "key": "$document_id", "value": "<document>"}}),
    ),
}


@dataclass(frozen=True)
class EndpointCase:
    """An endpoint and one way to call it."""

    endpoint: Endpoint
    template: Template
    number: int

    def __str__(self) -> str:
        return f"{self.endpoint.name} {self.number}"

    @property
    def fields(self) -> tuple[str, ...]:
        """The ids in path, query and body."""
        places = PLACE.findall(f"{self.template}")
        return tuple(dict.fromkeys([*re.findall(r"{(\w+)}", self.endpoint.path), *places]) - {"fresh": None}.keys())

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that the same things serve again."""
        return self.endpoint.method == "GET" or self.finds or self.endpoint.name == MCP

    @property
    def finds(self) -> bool:
        """Whether it gives what a search finds."""
        return self.endpoint.path.endswith(("search", "answer")) or self.endpoint.name == DIFY

    @property
    def binds(self) -> bool:
        """Whether it is answered as an agent's binding has it, which holds for every key of its tenant."""
        return self.endpoint.path.endswith("agent-search") and "agent_id" in self.fields

    @property
    def operators(self) -> bool:
        """Whether it is the operator's alone."""
        return self.endpoint.path.startswith("/v1/tenants")


def cases_of(endpoint: Endpoint) -> list[EndpointCase]:
    """The ways to call it; none given is one without query and body."""
    templates = TEMPLATES.get(endpoint.name, (Template(),))
    return [EndpointCase(endpoint, template, number) for number, template in enumerate(templates)]


def unknown_words(endpoint: Endpoint) -> list[str]:
    """What the endpoint takes and these cases do not speak of."""
    if endpoint.method == "*":
        return [f"{endpoint.path}: its routes cannot be seen"]
    named = {name for template in TEMPLATES.get(endpoint.name, ()) for name in template.names()}
    missing = [f"path: {name}" for name in re.findall(r"{(\w+)[^}]*}", endpoint.path) if name not in PATH_FIELDS]
    missing += [f"query: {name}" for name in sorted(endpoint.query - PLAIN - named)]
    missing += [f"body: {name}" for name in sorted(endpoint.body - PLAIN - named)]
    if endpoint.method in ("POST", "PUT", "PATCH") and endpoint.name not in TEMPLATES:
        missing.append("a body")
    return missing
