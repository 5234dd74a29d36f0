"""The client. ``generate.py`` makes this file from ``async_client.py``: edit that file."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, Unpack, cast

import httpx2

from carrel_client import http_requests
from carrel_client.errors import ConnectionFailed, IngestionFailed, UnexpectedReply, WaitTimeout
from carrel_client.evaluations import Evaluations, GoldenSets
from carrel_client.http_requests import Request, Source, build_path
from carrel_client.types import (
    FINAL,
    ApiKey,
    Chunk,
    Deletion,
    Document,
    DocumentFilters,
    DocumentGraphReply,
    DocumentOptions,
    EnrichmentEstimateReply,
    EnrichmentStatusReply,
    EntityCorrection,
    EntityFilters,
    EntityItem,
    EntityWithChunks,
    ExternalSearch,
    ImportCounts,
    IncludeName,
    KnowledgeBase,
    Me,
    Message,
    NewApiKey,
    NewSqlView,
    NewTenant,
    QueueJob,
    Receipt,
    Role,
    SearchOptions,
    SearchReply,
    SqlView,
    Tenant,
    TextOptions,
)

LONGEST_WAIT = 60.0


class Client:
    """Client of a Carrel service with one API key. Close it, or use it with ``with``.

    The client may be used by several threads at the same time. The client sends a request again, up to ``retries``
    times, if the service is briefly unavailable (429, 502, 503, 504, no connection). Before each attempt the client
    waits for the time that the service requests. Every method raises ApiError (a subclass for each status),
    ConnectionFailed or UnexpectedReply.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = http_requests.DEFAULT_TIMEOUT_SECONDS,
        retries: int = http_requests.DEFAULT_RETRIES,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._http = httpx2.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {key}", "User-Agent": "carrel-client"},
            timeout=timeout,
            transport=transport,
        )
        self._retries = retries
        self.knowledge_bases = KnowledgeBases(self)
        self.documents = Documents(self)
        self.api_keys = ApiKeys(self)
        self.tenants = Tenants(self)
        self.agents = Agents(self)
        self.golden_sets = GoldenSets(self)
        self.evaluations = Evaluations(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of the client."""
        self._http.close()

    def me(self) -> Me:
        """Return the caller with its limits and their usage."""
        return cast(Me, self.get("me"))

    def capabilities(self) -> dict[str, Any]:
        """Return the parsers, chunkers, strategies, transformers, models and limits of the service."""
        return cast(dict[str, Any], self.get("capabilities"))

    def usage(self, *, begin: str | None = None, end: str | None = None, by: str = "day") -> dict[str, Any]:
        """Return the usage of the tenant between two days (``2026-11-01``), grouped by ``day`` or by ``key``."""
        return cast(dict[str, Any], self.get("usage", params={"from": begin, "to": end, "by": by}))

    def search(
        self,
        query: str | None = None,
        *,
        knowledge_base: str | None = None,
        knowledge_bases: Sequence[str] | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchReply:
        """Search one knowledge base, several, or all knowledge bases that the API key may read. Return the best
        passages.
        """
        body = http_requests.build_search_body(query, options)
        if knowledge_base is not None:
            return cast(SearchReply, self.post("knowledge-bases", knowledge_base, "search", body=body))
        if knowledge_bases is not None:
            body["knowledge_bases"] = list(knowledge_bases)
        return cast(SearchReply, self.post("search", body=body))

    def agent_search(
        self,
        messages: Sequence[Message],
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        top_k: int | None = None,
    ) -> list[str]:
        """Return the passages that answer a conversation, as plain texts for agent platforms."""
        body = {"messages": list(messages), "agent_id": agent_id, "session_id": session_id, "top_k": top_k}
        return cast(list[str], self.post("agent-search", body=http_requests.to_query_params(body)))

    def receipt(self, deletion: str) -> Receipt:
        """Return the receipt of a deletion: removed and remaining rows by table."""
        return cast(Receipt, self.get("deletions", deletion))

    def receipts(self, *, state: str | None = None, knowledge_base: str | None = None) -> Iterator[Receipt]:
        """Yield the receipts of deletions, newest first; requires the role admin.

        Args:
            state: Only ``unfinished``, or only ``finished`` deletions.
            knowledge_base: Only deletions of this knowledge base, and of documents in it.
        """
        for item in self.pages("deletions", params={"state": state, "knowledge_base": knowledge_base}):
            yield cast(Receipt, item)

    def jobs(self, **filters: str) -> Iterator[QueueJob]:
        """Yield the jobs of the queue, newest first; requires the role admin.

        ``filters`` are ``state``, ``kind``, ``error_code``, ``document`` and ``knowledge_base``.
        """
        for item in self.pages("jobs", params=filters):
            yield cast(QueueJob, item)

    def job(self, job: str) -> QueueJob:
        """Return one job of the queue. A finished job is not found."""
        return cast(QueueJob, self.get("jobs", job))

    def retry_job(self, job: str) -> QueueJob:
        """Run a failed job again."""
        return cast(QueueJob, self.post("jobs", job, "retry"))

    def retry_jobs(self, **filters: str) -> int:
        """Run all failed jobs again that match, and return their number.

        ``filters`` are ``kind``, ``error_code`` and ``knowledge_base``.
        """
        total, has_more = 0, True
        while has_more:
            reply = self.post("jobs", "retry", params=filters)
            total, has_more = total + reply["retried"], reply["has_more"] and reply["retried"] > 0
        return total

    def audit_events(self, **filters: str | int) -> Iterator[dict[str, Any]]:
        """Return an iterator over the audit events, newest first."""
        return self.pages("audit-events", params=filters)

    def get(self, *parts: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a GET below ``/v1`` and return the JSON of the response. The client quotes the parts of the path."""
        return self.send(Request("GET", build_path(*parts), http_requests.to_query_params(params or {})))

    def post(self, *parts: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """Send a POST below ``/v1`` and return the JSON of the response."""
        return self.send(Request("POST", build_path(*parts), http_requests.to_query_params(params or {}), body=body))

    def put(self, *parts: str, body: Any) -> Any:
        """Send a PUT below ``/v1`` and return the JSON of the response."""
        return self.send(Request("PUT", build_path(*parts), body=body))

    def patch(self, *parts: str, body: Any, if_match: str | None = None) -> Any:
        """Send a PATCH below ``/v1`` and return the JSON of the response.

        With ``if_match``, the object changes only if it still has this ETag. Raises PreconditionFailed.
        """
        return self.send(Request("PATCH", build_path(*parts), body=body, if_match=if_match))

    def get_with_etag(self, *parts: str) -> tuple[Any, str | None]:
        """Return the JSON of a GET below ``/v1`` and its ETag, for ``if_match`` of an update."""
        reply = self.reply(Request("GET", build_path(*parts)))
        return http_requests.read_reply(reply), reply.headers.get("ETag")

    def count(self, *parts: str, params: Mapping[str, Any] | None = None) -> int:
        """Return the number of items on all pages of a list, without loading them."""
        page = self.get(*parts, params={**(params or {}), "count": True, "limit": 1})
        return cast(int, page["total"])

    def pages(self, *parts: str, params: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield all items of a list; the client loads page after page."""
        cursor: str | None = None
        while True:
            page = self.get(*parts, params={**(params or {}), "cursor": cursor})
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def send(self, request: Request) -> Any:
        """Send a request and return the JSON of the response."""
        return http_requests.read_reply(self.reply(request))

    def reply(self, request: Request) -> httpx2.Response:
        """Send a request and return the response of the last attempt, with any status. Raises ConnectionFailed."""
        request = http_requests.with_idempotency_key(request)
        for attempt in range(1, self._retries + 2):
            is_last = attempt > self._retries or not request.is_repeatable
            reply: httpx2.Response | None = None
            try:
                with http_requests.open_source(request) as file:
                    reply = self._http.request(
                        request.method, request.path, **http_requests.to_httpx_arguments(request, file)
                    )
            except (httpx2.TransportError, httpx2.InvalidURL) as exc:
                if is_last or isinstance(exc, (httpx2.InvalidURL, httpx2.UnsupportedProtocol)):
                    raise ConnectionFailed(f"{self._http.base_url} does not answer: {exc}") from exc
            delay = http_requests.compute_retry_delay(attempt, reply)
            if reply is not None and (
                is_last or delay is None or reply.status_code not in http_requests.RETRYABLE_STATUSES
            ):
                return reply
            time.sleep(delay or 0.0)
        raise AssertionError  # the last attempt returns or raises

    @contextmanager
    def stream(self, request: Request) -> Iterator[httpx2.Response]:
        """Open a response that is read piece by piece. The request is not repeated.

        Raises:
            ApiError: The service refuses the request, before the first piece.
            ConnectionFailed: The connection broke.
        """
        try:
            with self._http.stream(
                request.method, request.path, **http_requests.to_httpx_arguments(request, None), follow_redirects=False
            ) as reply:
                if not reply.is_success and not reply.is_redirect:
                    reply.read()
                    http_requests.read_reply(reply)
                yield reply
        except httpx2.TransportError as exc:
            raise ConnectionFailed(f"{self._http.base_url} broke off: {exc}") from exc


class KnowledgeBases:
    """Operations on knowledge bases. A name or an ID identifies a knowledge base."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, name: str, **settings: Any) -> KnowledgeBase:
        """Create a knowledge base; ``settings`` are the fields of ``POST /v1/knowledge-bases``."""
        return cast(KnowledgeBase, self._client.post("knowledge-bases", body={"name": name, **settings}))

    def list(self) -> Iterator[KnowledgeBase]:
        """Yield all knowledge bases, newest first."""
        for item in self._client.pages("knowledge-bases"):
            yield cast(KnowledgeBase, item)

    def get(self, knowledge_base: str) -> KnowledgeBase:
        """Return one knowledge base."""
        return cast(KnowledgeBase, self._client.get("knowledge-bases", knowledge_base))

    def update(self, knowledge_base: str, *, if_match: str | None = None, **changes: Any) -> KnowledgeBase:
        """Change settings of a knowledge base; with ``if_match``, only if it has this ETag."""
        return cast(
            KnowledgeBase, self._client.patch("knowledge-bases", knowledge_base, body=changes, if_match=if_match)
        )

    def reindex(self, knowledge_base: str, **settings: Any) -> KnowledgeBase:
        """Rebuild the search index of a knowledge base, optionally with another embedding model or chunking."""
        return cast(KnowledgeBase, self._client.post("knowledge-bases", knowledge_base, "reindex", body=settings))

    def delete(self, knowledge_base: str) -> str:
        """Delete a knowledge base and return the ID of the deletion, whose receipt shows when nothing is left."""
        reply = self._client.reply(Request("DELETE", build_path("knowledge-bases", knowledge_base)))
        http_requests.read_reply(reply)
        return reply.headers["Carrel-Deletion-Id"]

    def create_sql_view(
        self, knowledge_base: str, *, collection: str | None = None, content_key: str | None = None
    ) -> NewSqlView:
        """Create a SQL view of a knowledge base and a database role, for a platform that queries pgvector tables
        directly.
        """
        body = http_requests.to_query_params({"collection": collection, "content_key": content_key})
        view = self._client.post("knowledge-bases", knowledge_base, "sql-view", body=body)
        return cast(NewSqlView, view)

    def get_sql_view(self, knowledge_base: str, **options: Any) -> SqlView:
        """Return the SQL view of a knowledge base, without the password.

        ``options`` are fields of the connection block, such as ``provider`` and ``top_k``.
        """
        return cast(SqlView, self._client.get("knowledge-bases", knowledge_base, "sql-view", params=options))

    def get_external_search(self, knowledge_base: str, **options: Any) -> ExternalSearch:
        """Return the configuration block with which an agent platform searches a knowledge base.

        ``options`` are ``base_url`` and ``api_key_variable``.
        """
        block = self._client.get("knowledge-bases", knowledge_base, "external-search", params=options)
        return cast(ExternalSearch, block)

    def delete_sql_view(self, knowledge_base: str) -> None:
        """Delete the SQL view and its database role, if the SQL view exists. The view is empty immediately."""
        self._client.send(Request("DELETE", build_path("knowledge-bases", knowledge_base, "sql-view")))

    def entities(self, knowledge_base: str, **filters: Unpack[EntityFilters]) -> Iterator[EntityItem]:
        """Yield the entities that readable chunks name, by name. ``prefix`` and ``q`` are parts of the name."""
        for item in self._client.pages("knowledge-bases", knowledge_base, "entities", params=filters):
            yield cast(EntityItem, item)

    def entity(self, knowledge_base: str, entity: str, **options: Any) -> EntityWithChunks:
        """Return an entity with a page of its chunks and with its neighbours.

        ``options`` are a scope, and ``limit`` and ``cursor`` for the chunks.
        """
        reply = self._client.get("knowledge-bases", knowledge_base, "entities", entity, params=options)
        return cast(EntityWithChunks, reply)

    def merge_entities(self, knowledge_base: str, entities: Sequence[str], into: str) -> str:
        """Let entities count as another in the whole knowledge base. Return the ID of the entity that remains."""
        body = {"entities": [*entities], "into": into}
        reply = self._client.post("knowledge-bases", knowledge_base, "entities", "merge", body=body)
        return cast(str, reply["entity"])

    def split_entity(self, knowledge_base: str, entity: str, documents: Sequence[str], name: str) -> str:
        """Let an entity mean another in some documents. Return the ID of the other entity.

        Args:
            knowledge_base: Name or ID of the knowledge base.
            entity: ID of the entity.
            documents: IDs of the documents that mean the other entity.
            name: Name of the other entity.
        """
        body = {"entity": entity, "documents": [*documents], "name": name}
        reply = self._client.post("knowledge-bases", knowledge_base, "entities", "split", body=body)
        return cast(str, reply["entity"])

    def corrections(self, knowledge_base: str) -> Iterator[EntityCorrection]:
        """Yield the merges and splits of a knowledge base, newest first."""
        for item in self._client.pages("knowledge-bases", knowledge_base, "entities", "corrections"):
            yield cast(EntityCorrection, item)

    def undo_correction(self, knowledge_base: str, correction: str) -> None:
        """Delete a merge or a split."""
        path = build_path("knowledge-bases", knowledge_base, "entities", "corrections", correction)
        self._client.send(Request("DELETE", path))

    def enrichment(self, knowledge_base: str) -> EnrichmentStatusReply:
        """Return the state of the enrichment by a chat model."""
        return cast(EnrichmentStatusReply, self._client.get("knowledge-bases", knowledge_base, "enrichment"))

    def estimate_enrichment(self, knowledge_base: str) -> EnrichmentEstimateReply:
        """Return the estimated cost of the documents that are not enriched. No model is called."""
        reply = self._client.post("knowledge-bases", knowledge_base, "enrichment", "estimate")
        return cast(EnrichmentEstimateReply, reply)

    def run_enrichment(self, knowledge_base: str) -> int:
        """Enqueue the documents that are not enriched, and return their number."""
        reply = self._client.post("knowledge-bases", knowledge_base, "enrichment", "run")
        return cast(int, reply["enqueued"])

    def export(self, knowledge_base: str, target: Path | str) -> int:
        """Export a knowledge base to an archive file and return the number of bytes."""
        with self._client.stream(Request("GET", build_path("knowledge-bases", knowledge_base, "export"))) as reply:
            return _write(reply, target)

    def import_archive(self, knowledge_base: str, archive: bytes) -> ImportCounts:
        """Import an archive, or a manifest and some documents of it. Stored documents are skipped."""
        path = build_path("knowledge-bases", knowledge_base, "import")
        return cast(ImportCounts, self._client.send(Request("POST", path, archive=archive)))


class Documents:
    """Operations on the documents of a knowledge base."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def upload(
        self,
        knowledge_base: str,
        source: Source,
        *,
        filename: str | None = None,
        wait: float = 0,
        **options: Unpack[DocumentOptions],
    ) -> Document:
        """Upload a file and return its document.

        Args:
            knowledge_base: Name or ID of the knowledge base.
            source: Path, bytes, or an open binary file.
            filename: Name of the file; required for bytes.
            wait: Maximum time, in seconds, to wait until the document is ready; at most 60.
            options: Metadata and other fields of the document.

        Raises:
            OSError: The file cannot be read.
            ValueError: Bytes or a stream have no file name.
        """
        path = build_path("knowledge-bases", knowledge_base, "documents")
        return cast(Document, self._client.send(http_requests.build_upload(path, source, filename, options, wait)))

    def add_text(self, knowledge_base: str, text: str, *, wait: float = 0, **options: Unpack[TextOptions]) -> Document:
        """Upload a text and return its document; ``wait`` is the maximum time, in seconds, to wait until the document
        is ready.
        """
        reply = self._client.post(
            "knowledge-bases",
            knowledge_base,
            "documents",
            body={"text": text, **options},
            params={"wait": wait or None},
        )
        return cast(Document, reply)

    def list(self, knowledge_base: str, **filters: Unpack[DocumentFilters]) -> Iterator[Document]:
        """Yield the documents that match the filters, newest first."""
        for item in self._client.pages("knowledge-bases", knowledge_base, "documents", params=filters):
            yield cast(Document, item)

    def get(self, knowledge_base: str, document: str) -> Document:
        """Return one document."""
        return cast(Document, self._client.get("knowledge-bases", knowledge_base, "documents", document))

    def update(self, knowledge_base: str, document: str, *, if_match: str | None = None, **changes: Any) -> Document:
        """Change metadata, title, source or scope of a document; with ``if_match``, only if it has this ETag."""
        reply = self._client.patch(
            "knowledge-bases", knowledge_base, "documents", document, body=changes, if_match=if_match
        )
        return cast(Document, reply)

    def reindex(self, knowledge_base: str, document: str) -> Document:
        """Ingest a document again, for example after a failure."""
        reply = self._client.post("knowledge-bases", knowledge_base, "documents", document, "reindex")
        return cast(Document, reply)

    def wait(
        self, knowledge_base: str, document: str, *, timeout_seconds: float = 600, poll_interval_seconds: float = 0.5
    ) -> Document:
        """Wait until a document is ready, and return the document.

        Args:
            knowledge_base: Name or ID of the knowledge base.
            document: ID of the document.
            timeout_seconds: Maximum time to wait.
            poll_interval_seconds: Pause between two requests.

        Raises:
            IngestionFailed: The ingestion failed.
            WaitTimeout: The document is not ready in time.
        """
        deadline = time.monotonic() + timeout_seconds
        while (current := self.get(knowledge_base, document))["status"] not in FINAL:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"{current['source']} is {current['status']} after {timeout_seconds:g} seconds")
            time.sleep(poll_interval_seconds)
        if current["status"] == "failed":
            raise IngestionFailed(current)
        return current

    def delete(self, knowledge_base: str, document: str) -> str:
        """Delete a document, which disappears from searches immediately. Return the ID of the deletion."""
        path = build_path("knowledge-bases", knowledge_base, "documents", document)
        reply = self._client.reply(Request("DELETE", path))
        http_requests.read_reply(reply)
        return reply.headers["Carrel-Deletion-Id"]

    def delete_many(
        self,
        knowledge_base: str,
        *,
        ids: Sequence[str] | None = None,
        external_id: str | None = None,
        filter: Mapping[str, Any] | None = None,
        confirm: str | None = None,
    ) -> Deletion:
        """Delete the documents of a list of IDs, of an external ID, or of a filter.

        Args:
            knowledge_base: Name or ID of the knowledge base.
            ids: IDs of documents.
            external_id: External ID of a document.
            filter: Metadata filter; an empty filter selects all documents.
            confirm: Name of the knowledge base, required with an empty filter.
        """
        params = {"ids": http_requests.join_ids(ids), "external_id": external_id, "filter": filter, "confirm": confirm}
        path = build_path("knowledge-bases", knowledge_base, "documents")
        return cast(Deletion, self._client.send(Request("DELETE", path, http_requests.to_query_params(params))))

    def chunks(self, knowledge_base: str, document: str, *, include: Sequence[IncludeName] = ()) -> Iterator[Chunk]:
        """Yield the chunks of a document in their order.

        Args:
            knowledge_base: Name or id of the knowledge base.
            document: Id of the document.
            include: Fields to add to each chunk.
        """
        params = {"include": ",".join(include) or None}
        for item in self._client.pages(
            "knowledge-bases", knowledge_base, "documents", document, "chunks", params=params
        ):
            yield cast(Chunk, item)

    def graph(self, knowledge_base: str, document: str) -> DocumentGraphReply:
        """Return the entities of a document, the chunks that name them, and relations."""
        reply = self._client.get("knowledge-bases", knowledge_base, "documents", document, "graph")
        return cast(DocumentGraphReply, reply)

    def page_image(self, knowledge_base: str, document: str, page: int, *, scale: float = 1.0) -> bytes:
        """Return a page of a PDF file as PNG.

        Args:
            knowledge_base: Name or ID of the knowledge base.
            document: ID of the document.
            page: Page number from 1.
            scale: Pixels for each point of the page, 0.1 to 8.
        """
        path = build_path("knowledge-bases", knowledge_base, "documents", document, "pages", f"{page}.png")
        reply = self._client.reply(Request("GET", path, {"scale": str(scale)}))
        if not reply.is_success:
            http_requests.read_reply(reply)  # raises the error
        return reply.content

    def download(self, knowledge_base: str, document: str, target: Path | str) -> int:
        """Download the original of a document to a file and return the number of bytes.

        If the service redirects to a presigned link of its S3 store, the client follows the link.
        """
        request = Request("GET", build_path("knowledge-bases", knowledge_base, "documents", document, "content"))
        with self._client.stream(request) as reply:
            if not reply.is_redirect:
                return _write(reply, target)
            link = reply.headers["Location"]
        # The presigned link contains the authorization, so the API key is not sent to the store.
        with (
            httpx2.Client(timeout=http_requests.DEFAULT_TIMEOUT_SECONDS) as store,
            store.stream("GET", link) as reply,
        ):
            if not reply.is_success:
                raise UnexpectedReply(f"the object store answers {reply.status_code}")
            return _write(reply, target)


def _write(reply: httpx2.Response, target: Path | str) -> int:
    size_bytes = 0
    with Path(target).open("wb") as file:
        for piece in reply.iter_bytes():
            size_bytes += file.write(piece)
    return size_bytes


class ApiKeys:
    """Operations on the API keys of the tenant; they require the role admin."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, name: str, role: Role, **settings: Any) -> NewApiKey:
        """Create an API key. Only this response has its secret, in ``key``."""
        return cast(NewApiKey, self._client.post("api-keys", body={"name": name, "role": role, **settings}))

    def list(self) -> Iterator[ApiKey]:
        """Yield the valid API keys, newest first."""
        for item in self._client.pages("api-keys"):
            yield cast(ApiKey, item)

    def rotate(self, api_key: str, *, overlap_seconds: int | None = None) -> NewApiKey:
        """Rotate an API key: create a replacement. The old key expires after ``overlap_seconds``."""
        body = http_requests.to_query_params({"overlap_seconds": overlap_seconds})
        return cast(NewApiKey, self._client.post("api-keys", api_key, "rotate", body=body))

    def revoke(self, api_key: str) -> None:
        """Revoke an API key. Every replica refuses it immediately."""
        self._client.send(Request("DELETE", build_path("api-keys", api_key)))


class Tenants:
    """Operations on tenants; they require the operator key."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, name: str, *, quotas: Mapping[str, Any] | None = None) -> NewTenant:
        """Create a tenant with its first API key."""
        body = {"name": name, **({} if quotas is None else {"quotas": dict(quotas)})}
        return cast(NewTenant, self._client.post("tenants", body=body))

    def list(self) -> Iterator[Tenant]:
        """Yield all tenants, newest first."""
        for item in self._client.pages("tenants"):
            yield cast(Tenant, item)

    def get(self, tenant: str) -> Tenant:
        """Return one tenant."""
        return cast(Tenant, self._client.get("tenants", tenant))

    def update(self, tenant: str, *, if_match: str | None = None, **changes: Any) -> Tenant:
        """Change the name or the quotas of a tenant; with ``if_match``, only if it has this ETag."""
        return cast(Tenant, self._client.patch("tenants", tenant, body=changes, if_match=if_match))

    def delete(self, tenant: str) -> str:
        """Delete a tenant with all its data. The API keys are refused immediately. Return the ID of the deletion."""
        reply = self._client.reply(Request("DELETE", build_path("tenants", tenant)))
        http_requests.read_reply(reply)
        return reply.headers["Carrel-Deletion-Id"]


class Agents:
    """Operations on agent bindings; they require the role admin."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def bind(self, agent_id: str, knowledge_bases: Sequence[str], **settings: Any) -> dict[str, Any]:
        """Bind an agent to knowledge bases. An existing binding of the agent is replaced."""
        body = {"knowledge_bases": [*knowledge_bases], **settings}
        return cast(dict[str, Any], self._client.put("agents", agent_id, body=body))

    def list(self) -> Iterator[dict[str, Any]]:
        """Return an iterator over all bindings, newest first."""
        return self._client.pages("agents")

    def get(self, agent_id: str) -> dict[str, Any]:
        """Return the binding of one agent."""
        return cast(dict[str, Any], self._client.get("agents", agent_id))

    def update(self, agent_id: str, *, if_match: str | None = None, **changes: Any) -> dict[str, Any]:
        """Change settings of the binding of an agent; with ``if_match``, only if it has this ETag."""
        return cast(dict[str, Any], self._client.patch("agents", agent_id, body=changes, if_match=if_match))

    def get_external_search(self, agent_id: str, **options: Any) -> ExternalSearch:
        """Return the configuration block with which the agent's platform searches.

        ``options`` are ``base_url`` and ``api_key_variable``.
        """
        return cast(ExternalSearch, self._client.get("agents", agent_id, "external-search", params=options))

    def unbind(self, agent_id: str) -> None:
        """Delete the binding of an agent."""
        self._client.send(Request("DELETE", build_path("agents", agent_id)))
