"""Tags of the OpenAPI document: groups of operations, in the order of the reference."""

from typing import Any

TAGS: list[dict[str, Any]] = [
    {
        "name": "search",
        "description": "Search one knowledge base or several. A search embeds the query, runs the retrievers of its "
        "strategy, fuses their rankings, and returns chunks with scores, citations and metadata.",
    },
    {
        "name": "agent search",
        "description": "External-search contract for agent platforms: a conversation in, a bare JSON array of "
        "passages out.",
    },
    {
        "name": "answers",
        "description": "Answers that a chat model writes from search results, with citations. They stream as "
        "server-sent events or come as one JSON object.",
    },
    {
        "name": "knowledge bases",
        "description": "Collections of documents with one embedding model, one chunking and default search settings. "
        "Also reindex, rollback, export and import.",
    },
    {
        "name": "documents",
        "description": "Upload, list, update and delete documents. Read their original, chunks, images and tree, and "
        "the receipts of deletions.",
    },
    {
        "name": "entities",
        "description": "Entities that the chunks of a knowledge base name: lists, neighbours, the graph of a "
        "document, and corrections by people.",
    },
    {
        "name": "preview",
        "description": "Parse and cut a file without storing it, to check how well it can be read.",
    },
    {
        "name": "agents",
        "description": "Bindings of agents: which knowledge bases an agent of a platform searches, and with which "
        "settings.",
    },
    {
        "name": "prompts",
        "description": "Numbered versions of the prompts of knowledge bases and agents. A version can be pinned.",
    },
    {
        "name": "sql views",
        "description": "A knowledge base as a read-only view in Postgres, for platforms that read a pgvector table "
        "themselves.",
    },
    {
        "name": "api keys",
        "description": "Create, list, rotate and revoke the API keys of a tenant. The secret of a key is shown once.",
    },
    {"name": "me", "description": "The tenant, the API key and the limits of the caller."},
    {"name": "tenants", "description": "Tenants of the service. Only the operator manages them."},
    {
        "name": "webhooks",
        "description": "Signed HTTP notifications of events, and their deliveries.",
    },
    {
        "name": "evaluations",
        "description": "Golden sets, which are queries whose relevant documents are known, and evaluations of search "
        "settings with them.",
    },
    {"name": "usage", "description": "Uploads, searches and tokens of a tenant by day or by API key."},
    {"name": "audit", "description": "Audit events: who did what, when, and from which address."},
    {
        "name": "jobs",
        "description": "Jobs of the queue: what waits, runs or failed, and why. Failed jobs can be retried.",
    },
    {"name": "status", "description": "State of workers and jobs, for the people who operate the service."},
    {
        "name": "capabilities",
        "description": "Parsers, chunkers, strategies, transformers, models and limits of this service.",
    },
    {
        "name": "openai vector stores",
        "description": "Vector stores of the OpenAI API. A vector store is a knowledge base, a file of it is a "
        "document. The official clients work with the base URL `/openai/v1`.",
    },
    {
        "name": "openai files",
        "description": "Files of the OpenAI API: stored once, attached to vector stores later.",
    },
    {"name": "dify", "description": "External knowledge API of Dify."},
    {"name": "mcp", "description": "Model Context Protocol over streamable HTTP, for agents."},
    {"name": "health", "description": "Liveness and readiness for orchestrators. They need no API key."},
]
