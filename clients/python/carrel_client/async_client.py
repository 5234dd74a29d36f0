"""The client for asyncio; ``sync_client.py`` is made of this file by ``generate.py``."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, Unpack, cast

import httpx2

from carrel_client import http_requests
from carrel_client.errors import ConnectionFailed, IngestionFailed, UnexpectedReply, WaitTimeout
from carrel_client.http_requests import Request, Source, build_path
from carrel_client.types import (
    FINAL,
    ApiKey,
    Chunk,
    Deletion,
    Document,
    DocumentFilters,
    DocumentOptions,
    ImportCounts,
    KnowledgeBase,
    Me,
    Message,
    NewApiKey,
    NewSqlView,
    NewTenant,
    Receipt,
    Role,
    SearchOptions,
    SearchReply,
    SqlView,
    Tenant,
    TextOptions,
)

LONGEST_WAIT = 60.0


class AsyncClient:
    """A service and a key; to be closed, or used by ``async with``. May be used by several tasks at once.

    Requests that the service could not take for a moment (429, 502, 503, 504, no connection) are sent again, up to
    ``retries`` times, after the pause that it asks for. Every method raises ApiError (one class for each status),
    ConnectionFailed or UnexpectedReply.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = http_requests.DEFAULT_TIMEOUT_SECONDS,
        retries: int = http_requests.DEFAULT_RETRIES,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {key}", "User-Agent": "carrel-client"},
            timeout=timeout,
            transport=transport,
        )
        self._retries = retries
        self.knowledge_bases = AsyncKnowledgeBases(self)
        self.documents = AsyncDocuments(self)
        self.api_keys = AsyncApiKeys(self)
        self.tenants = AsyncTenants(self)
        self.agents = AsyncAgents(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def me(self) -> Me:
        """Who is calling, its limits and what is gone of them."""
        return cast(Me, await self.get("me"))

    async def capabilities(self) -> dict[str, Any]:
        """Parsers, chunkers, strategies, transformers, models and limits of the service."""
        return cast(dict[str, Any], await self.get("capabilities"))

    async def usage(self, *, begin: str | None = None, end: str | None = None, by: str = "day") -> dict[str, Any]:
        """What was used from one day to another, by ``day`` or by ``key``."""
        return cast(dict[str, Any], await self.get("usage", params={"from": begin, "to": end, "by": by}))

    async def search(
        self,
        query: str | None = None,
        *,
        knowledge_base: str | None = None,
        knowledge_bases: Sequence[str] | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchReply:
        """The best passages of one knowledge base, of several, or of all that the key may read."""
        body = http_requests.build_search_body(query, options)
        if knowledge_base is not None:
            return cast(SearchReply, await self.post("knowledge-bases", knowledge_base, "search", body=body))
        if knowledge_bases is not None:
            body["knowledge_bases"] = list(knowledge_bases)
        return cast(SearchReply, await self.post("search", body=body))

    async def agent_search(
        self,
        messages: Sequence[Message],
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        top_k: int | None = None,
    ) -> list[str]:
        """The texts that a conversation needs, as an agent platform gets them."""
        body = {"messages": list(messages), "agent_id": agent_id, "session_id": session_id, "top_k": top_k}
        return cast(list[str], await self.post("agent-search", body=http_requests.to_query_params(body)))

    async def receipt(self, deletion: str) -> Receipt:
        """What a deletion removed and what is left of it."""
        return cast(Receipt, await self.get("deletions", deletion))

    def audit_events(self, **filters: str | int) -> AsyncIterator[dict[str, Any]]:
        """Who did what, newest first."""
        return self.pages("audit-events", params=filters)

    async def get(self, *parts: str, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a GET below ``/v1``; the parts of its path are quoted."""
        return await self.send(Request("GET", build_path(*parts), http_requests.to_query_params(params or {})))

    async def post(self, *parts: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a POST below ``/v1``."""
        return await self.send(
            Request("POST", build_path(*parts), http_requests.to_query_params(params or {}), body=body)
        )

    async def put(self, *parts: str, body: Any) -> Any:
        """The JSON of a PUT below ``/v1``."""
        return await self.send(Request("PUT", build_path(*parts), body=body))

    async def patch(self, *parts: str, body: Any) -> Any:
        """The JSON of a PATCH below ``/v1``."""
        return await self.send(Request("PATCH", build_path(*parts), body=body))

    async def pages(self, *parts: str, params: Mapping[str, Any] | None = None) -> AsyncIterator[dict[str, Any]]:
        """Every item of a list, page after page."""
        cursor: str | None = None
        while True:
            page = await self.get(*parts, params={**(params or {}), "cursor": cursor})
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def send(self, request: Request) -> Any:
        """The JSON of a request."""
        return http_requests.read_reply(await self.reply(request))

    async def reply(self, request: Request) -> httpx2.Response:
        """What the service answers, whatever its status, after all attempts. Raises ConnectionFailed."""
        request = http_requests.with_idempotency_key(request)
        for attempt in range(1, self._retries + 2):
            is_last = attempt > self._retries or not request.is_repeatable
            reply: httpx2.Response | None = None
            try:
                with http_requests.open_source(request) as file:
                    reply = await self._http.request(
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
            await asyncio.sleep(delay or 0.0)
        raise AssertionError  # the last attempt returns or raises

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[httpx2.Response]:
        """An answer that is read piece by piece; not tried again. Raises ApiError before the first piece."""
        try:
            async with self._http.stream(
                request.method, request.path, **http_requests.to_httpx_arguments(request, None), follow_redirects=False
            ) as reply:
                if not reply.is_success and not reply.is_redirect:
                    await reply.aread()
                    http_requests.read_reply(reply)
                yield reply
        except httpx2.TransportError as exc:
            raise ConnectionFailed(f"{self._http.base_url} broke off: {exc}") from exc


class AsyncKnowledgeBases:
    """Knowledge bases; each is named by its name or its id."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, name: str, **settings: Any) -> KnowledgeBase:
        """Make one; ``settings`` as in ``POST /v1/knowledge-bases``."""
        return cast(KnowledgeBase, await self._client.post("knowledge-bases", body={"name": name, **settings}))

    async def list(self) -> AsyncIterator[KnowledgeBase]:
        """All of them, newest first."""
        async for item in self._client.pages("knowledge-bases"):
            yield cast(KnowledgeBase, item)

    async def get(self, knowledge_base: str) -> KnowledgeBase:
        """One of them."""
        return cast(KnowledgeBase, await self._client.get("knowledge-bases", knowledge_base))

    async def update(self, knowledge_base: str, **changes: Any) -> KnowledgeBase:
        """Change what is named."""
        return cast(KnowledgeBase, await self._client.patch("knowledge-bases", knowledge_base, body=changes))

    async def reindex(self, knowledge_base: str, **settings: Any) -> KnowledgeBase:
        """Build its index anew beside the live one, perhaps with another model or other chunks."""
        return cast(KnowledgeBase, await self._client.post("knowledge-bases", knowledge_base, "reindex", body=settings))

    async def delete(self, knowledge_base: str) -> str:
        """Out of reach at once; the id of the deletion, whose receipt tells when nothing is left."""
        reply = await self._client.reply(Request("DELETE", build_path("knowledge-bases", knowledge_base)))
        http_requests.read_reply(reply)
        return reply.headers["Carrel-Deletion-Id"]

    async def create_sql_view(
        self, knowledge_base: str, *, collection: str | None = None, content_key: str | None = None
    ) -> NewSqlView:
        """Create a view and a database role for a platform that reads a pgvector table itself."""
        body = http_requests.to_query_params({"collection": collection, "content_key": content_key})
        view = await self._client.post("knowledge-bases", knowledge_base, "sql-view", body=body)
        return cast(NewSqlView, view)

    async def get_sql_view(self, knowledge_base: str) -> SqlView:
        """Return the SQL view of a knowledge base, without the password."""
        return cast(SqlView, await self._client.get("knowledge-bases", knowledge_base, "sql-view"))

    async def delete_sql_view(self, knowledge_base: str) -> None:
        """Delete the SQL view and its role, if there is one. The view is empty immediately."""
        await self._client.send(Request("DELETE", build_path("knowledge-bases", knowledge_base, "sql-view")))

    async def export(self, knowledge_base: str, target: Path | str) -> int:
        """Write all of it to a file, as an archive; returns how many bytes."""
        async with self._client.stream(
            Request("GET", build_path("knowledge-bases", knowledge_base, "export"))
        ) as reply:
            return await _write(reply, target)

    async def import_archive(self, knowledge_base: str, archive: bytes) -> ImportCounts:
        """Take in an archive, or its manifest and some of its documents; what is there already is passed over."""
        path = build_path("knowledge-bases", knowledge_base, "import")
        return cast(ImportCounts, await self._client.send(Request("POST", path, archive=archive)))


class AsyncDocuments:
    """The documents of a knowledge base."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def upload(
        self,
        knowledge_base: str,
        source: Source,
        *,
        filename: str | None = None,
        wait: float = 0,
        **options: Unpack[DocumentOptions],
    ) -> Document:
        """Upload a file: a path, bytes, or an open binary file; the last two need a ``filename``.

        Waits up to ``wait`` seconds (60 at most) for it to be ready. Raises OSError where the file cannot be read.
        """
        path = build_path("knowledge-bases", knowledge_base, "documents")
        return cast(
            Document, await self._client.send(http_requests.build_upload(path, source, filename, options, wait))
        )

    async def add_text(
        self, knowledge_base: str, text: str, *, wait: float = 0, **options: Unpack[TextOptions]
    ) -> Document:
        """Upload a text."""
        reply = await self._client.post(
            "knowledge-bases",
            knowledge_base,
            "documents",
            body={"text": text, **options},
            params={"wait": wait or None},
        )
        return cast(Document, reply)

    async def list(self, knowledge_base: str, **filters: Unpack[DocumentFilters]) -> AsyncIterator[Document]:
        """All that match, newest first."""
        async for item in self._client.pages("knowledge-bases", knowledge_base, "documents", params=filters):
            yield cast(Document, item)

    async def get(self, knowledge_base: str, document: str) -> Document:
        """One of them."""
        return cast(Document, await self._client.get("knowledge-bases", knowledge_base, "documents", document))

    async def update(self, knowledge_base: str, document: str, **changes: Any) -> Document:
        """Change metadata, title, source or scope."""
        reply = await self._client.patch("knowledge-bases", knowledge_base, "documents", document, body=changes)
        return cast(Document, reply)

    async def reindex(self, knowledge_base: str, document: str) -> Document:
        """Ingest it again: brings back one that failed."""
        reply = await self._client.post("knowledge-bases", knowledge_base, "documents", document, "reindex")
        return cast(Document, reply)

    async def wait(
        self, knowledge_base: str, document: str, *, timeout_seconds: float = 600, poll_interval_seconds: float = 0.5
    ) -> Document:
        """The document when it is ready. Raises IngestionFailed, WaitTimeout."""
        deadline = time.monotonic() + timeout_seconds
        while (current := await self.get(knowledge_base, document))["status"] not in FINAL:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"{current['source']} is {current['status']} after {timeout_seconds:g} seconds")
            await asyncio.sleep(poll_interval_seconds)
        if current["status"] == "failed":
            raise IngestionFailed(current)
        return current

    async def delete(self, knowledge_base: str, document: str) -> str:
        """Out of every search at once; the id of the deletion."""
        path = build_path("knowledge-bases", knowledge_base, "documents", document)
        reply = await self._client.reply(Request("DELETE", path))
        http_requests.read_reply(reply)
        return reply.headers["Carrel-Deletion-Id"]

    async def delete_many(
        self,
        knowledge_base: str,
        *,
        ids: Sequence[str] | None = None,
        external_id: str | None = None,
        filter: Mapping[str, Any] | None = None,
        confirm: str | None = None,
    ) -> Deletion:
        """Delete those of some ids, of an external id, or of a filter; ``{}`` needs the name as ``confirm``."""
        params = {"ids": http_requests.join_ids(ids), "external_id": external_id, "filter": filter, "confirm": confirm}
        path = build_path("knowledge-bases", knowledge_base, "documents")
        return cast(Deletion, await self._client.send(Request("DELETE", path, http_requests.to_query_params(params))))

    async def chunks(self, knowledge_base: str, document: str) -> AsyncIterator[Chunk]:
        """Its passages, in their order."""
        async for item in self._client.pages("knowledge-bases", knowledge_base, "documents", document, "chunks"):
            yield cast(Chunk, item)

    async def download(self, knowledge_base: str, document: str, target: Path | str) -> int:
        """Write the original to a file; returns how many bytes. An S3 store is read by its presigned link."""
        request = Request("GET", build_path("knowledge-bases", knowledge_base, "documents", document, "content"))
        async with self._client.stream(request) as reply:
            if not reply.is_redirect:
                return await _write(reply, target)
            link = reply.headers["Location"]
        # The link carries its own right: the key is not shown to the store.
        async with (
            httpx2.AsyncClient(timeout=http_requests.DEFAULT_TIMEOUT_SECONDS) as store,
            store.stream("GET", link) as reply,
        ):
            if not reply.is_success:
                raise UnexpectedReply(f"the object store answers {reply.status_code}")
            return await _write(reply, target)


async def _write(reply: httpx2.Response, target: Path | str) -> int:
    size_bytes = 0
    with Path(target).open("wb") as file:
        async for piece in reply.aiter_bytes():
            size_bytes += file.write(piece)
    return size_bytes


class AsyncApiKeys:
    """The keys of the tenant; for an admin."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, name: str, role: Role, **settings: Any) -> NewApiKey:
        """Make one; its secret is in ``key`` and nowhere else."""
        return cast(NewApiKey, await self._client.post("api-keys", body={"name": name, "role": role, **settings}))

    async def list(self) -> AsyncIterator[ApiKey]:
        """All that are valid, newest first."""
        async for item in self._client.pages("api-keys"):
            yield cast(ApiKey, item)

    async def rotate(self, api_key: str, *, overlap_seconds: int | None = None) -> NewApiKey:
        """Make another in its place; the old one goes on for the overlap."""
        body = http_requests.to_query_params({"overlap_seconds": overlap_seconds})
        return cast(NewApiKey, await self._client.post("api-keys", api_key, "rotate", body=body))

    async def revoke(self, api_key: str) -> None:
        """It is refused from now on, on every replica."""
        await self._client.send(Request("DELETE", build_path("api-keys", api_key)))


class AsyncTenants:
    """Tenants; for the operator."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, name: str, *, quotas: Mapping[str, Any] | None = None) -> NewTenant:
        """Make one, with its first key."""
        body = {"name": name, **({} if quotas is None else {"quotas": dict(quotas)})}
        return cast(NewTenant, await self._client.post("tenants", body=body))

    async def list(self) -> AsyncIterator[Tenant]:
        """All of them, newest first."""
        async for item in self._client.pages("tenants"):
            yield cast(Tenant, item)

    async def get(self, tenant: str) -> Tenant:
        """One of them."""
        return cast(Tenant, await self._client.get("tenants", tenant))

    async def update(self, tenant: str, **changes: Any) -> Tenant:
        """Another name, or other quotas."""
        return cast(Tenant, await self._client.patch("tenants", tenant, body=changes))

    async def delete(self, tenant: str) -> str:
        """Shut its keys out at once and remove what it has; the id of the deletion."""
        reply = await self._client.reply(Request("DELETE", build_path("tenants", tenant)))
        http_requests.read_reply(reply)
        return reply.headers["Carrel-Deletion-Id"]


class AsyncAgents:
    """What agents are bound to; for an admin."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def bind(self, agent_id: str, knowledge_bases: Sequence[str], **settings: Any) -> dict[str, Any]:
        """Bind one, in place of what it was bound to."""
        body = {"knowledge_bases": [*knowledge_bases], **settings}
        return cast(dict[str, Any], await self._client.put("agents", agent_id, body=body))

    def list(self) -> AsyncIterator[dict[str, Any]]:
        """All bindings, newest first."""
        return self._client.pages("agents")

    async def get(self, agent_id: str) -> dict[str, Any]:
        """One of them."""
        return cast(dict[str, Any], await self._client.get("agents", agent_id))

    async def unbind(self, agent_id: str) -> None:
        """From now on it is an agent without a binding."""
        await self._client.send(Request("DELETE", build_path("agents", agent_id)))
