"""The client. Made of ``async_client.py`` by ``generate.py``: change that."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, Unpack, cast

import httpx2

from carrel_client import requesting
from carrel_client.errors import BadReply, ConnectionFailed, IngestionFailed, WaitTimeout
from carrel_client.requesting import Request, Source, path_of
from carrel_client.types import (
    FINAL,
    ApiKey,
    Chunk,
    Deletion,
    Document,
    DocumentFilters,
    DocumentOptions,
    Found,
    Imported,
    KnowledgeBase,
    Me,
    Message,
    NewApiKey,
    NewSqlView,
    NewTenant,
    Receipt,
    Role,
    SearchOptions,
    SqlView,
    Tenant,
    TextOptions,
)

LONGEST_WAIT = 60.0


class Client:
    """A service and a key; to be closed, or used by ``with``. May be used by several threads at once.

    Requests that the service could not take for a moment (429, 502, 503, 504, no connection) are sent again, up to
    ``retries`` times, after the pause that it asks for. Every method raises ApiError (one class for each status),
    ConnectionFailed or BadReply.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = requesting.TIMEOUT_SECONDS,
        retries: int = requesting.RETRIES,
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def me(self) -> Me:
        """Who is calling, its limits and what is gone of them."""
        return cast(Me, self.get("me"))

    def capabilities(self) -> dict[str, Any]:
        """Parsers, chunkers, strategies, transformers, models and limits of the service."""
        return cast(dict[str, Any], self.get("capabilities"))

    def usage(self, *, begin: str | None = None, end: str | None = None, by: str = "day") -> dict[str, Any]:
        """What was used from one day to another, by ``day`` or by ``key``."""
        return cast(dict[str, Any], self.get("usage", params={"from": begin, "to": end, "by": by}))

    def search(
        self,
        query: str | None = None,
        *,
        knowledge_base: str | None = None,
        knowledge_bases: Sequence[str] | None = None,
        **options: Unpack[SearchOptions],
    ) -> Found:
        """The best passages of one knowledge base, of several, or of all that the key may read."""
        body = requesting.search_body(query, options)
        if knowledge_base is not None:
            return cast(Found, self.post("knowledge-bases", knowledge_base, "search", body=body))
        if knowledge_bases is not None:
            body["knowledge_bases"] = list(knowledge_bases)
        return cast(Found, self.post("search", body=body))

    def agent_search(
        self,
        messages: Sequence[Message],
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        top_k: int | None = None,
    ) -> list[str]:
        """The texts that a conversation needs, as an agent platform gets them."""
        body = {"messages": list(messages), "agent_id": agent_id, "session_id": session_id, "top_k": top_k}
        return cast(list[str], self.post("agent-search", body=requesting.compact(body)))

    def receipt(self, deletion: str) -> Receipt:
        """What a deletion removed and what is left of it."""
        return cast(Receipt, self.get("deletions", deletion))

    def audit_events(self, **filters: str | int) -> Iterator[dict[str, Any]]:
        """Who did what, newest first."""
        return self.pages("audit-events", params=filters)

    def get(self, *parts: str, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a GET below ``/v1``; the parts of its path are quoted."""
        return self.send(Request("GET", path_of(*parts), requesting.compact(params or {})))

    def post(self, *parts: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a POST below ``/v1``."""
        return self.send(Request("POST", path_of(*parts), requesting.compact(params or {}), body=body))

    def put(self, *parts: str, body: Any) -> Any:
        """The JSON of a PUT below ``/v1``."""
        return self.send(Request("PUT", path_of(*parts), body=body))

    def patch(self, *parts: str, body: Any) -> Any:
        """The JSON of a PATCH below ``/v1``."""
        return self.send(Request("PATCH", path_of(*parts), body=body))

    def pages(self, *parts: str, params: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Every item of a list, page after page."""
        cursor: str | None = None
        while True:
            page = self.get(*parts, params={**(params or {}), "cursor": cursor})
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def send(self, request: Request) -> Any:
        """The JSON of a request."""
        return requesting.answer(self.reply(request))

    def reply(self, request: Request) -> httpx2.Response:
        """What the service answers, whatever its status, after all attempts. Raises ConnectionFailed."""
        request = requesting.keyed(request)
        for attempt in range(1, self._retries + 2):
            last = attempt > self._retries or not request.repeatable
            found: httpx2.Response | None = None
            try:
                with requesting.opened(request) as file:
                    found = self._http.request(request.method, request.path, **requesting.arguments(request, file))
            except (httpx2.TransportError, httpx2.InvalidURL) as exc:
                if last or isinstance(exc, (httpx2.InvalidURL, httpx2.UnsupportedProtocol)):
                    raise ConnectionFailed(f"{self._http.base_url} does not answer: {exc}") from exc
            pause = requesting.pause(attempt, found)
            if found is not None and (last or pause is None or found.status_code not in requesting.PASSING):
                return found
            time.sleep(pause or 0.0)
        raise AssertionError  # the last attempt returns or raises

    @contextmanager
    def stream(self, request: Request) -> Iterator[httpx2.Response]:
        """An answer that is read piece by piece; not tried again. Raises ApiError before the first piece."""
        try:
            with self._http.stream(
                request.method, request.path, **requesting.arguments(request, None), follow_redirects=False
            ) as found:
                if not found.is_success and not found.is_redirect:
                    found.read()
                    requesting.answer(found)
                yield found
        except httpx2.TransportError as exc:
            raise ConnectionFailed(f"{self._http.base_url} broke off: {exc}") from exc


class KnowledgeBases:
    """Knowledge bases; each is named by its name or its id."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, name: str, **settings: Any) -> KnowledgeBase:
        """Make one; ``settings`` as in ``POST /v1/knowledge-bases``."""
        return cast(KnowledgeBase, self._client.post("knowledge-bases", body={"name": name, **settings}))

    def list(self) -> Iterator[KnowledgeBase]:
        """All of them, newest first."""
        for item in self._client.pages("knowledge-bases"):
            yield cast(KnowledgeBase, item)

    def get(self, knowledge_base: str) -> KnowledgeBase:
        """One of them."""
        return cast(KnowledgeBase, self._client.get("knowledge-bases", knowledge_base))

    def update(self, knowledge_base: str, **changes: Any) -> KnowledgeBase:
        """Change what is named."""
        return cast(KnowledgeBase, self._client.patch("knowledge-bases", knowledge_base, body=changes))

    def reindex(self, knowledge_base: str, **settings: Any) -> KnowledgeBase:
        """Build its index anew beside the live one, perhaps with another model or other chunks."""
        return cast(KnowledgeBase, self._client.post("knowledge-bases", knowledge_base, "reindex", body=settings))

    def delete(self, knowledge_base: str) -> str:
        """Out of reach at once; the id of the deletion, whose receipt tells when nothing is left."""
        found = self._client.reply(Request("DELETE", path_of("knowledge-bases", knowledge_base)))
        requesting.answer(found)
        return found.headers["Carrel-Deletion-Id"]

    def create_sql_view(
        self, knowledge_base: str, *, collection: str | None = None, content_key: str | None = None
    ) -> NewSqlView:
        """Create a view and a database role for a platform that reads a pgvector table itself."""
        body = requesting.compact({"collection": collection, "content_key": content_key})
        view = self._client.post("knowledge-bases", knowledge_base, "sql-view", body=body)
        return cast(NewSqlView, view)

    def get_sql_view(self, knowledge_base: str) -> SqlView:
        """Return the SQL view of a knowledge base, without the password."""
        return cast(SqlView, self._client.get("knowledge-bases", knowledge_base, "sql-view"))

    def delete_sql_view(self, knowledge_base: str) -> None:
        """Delete the SQL view and its role, if there is one. The view is empty immediately."""
        self._client.send(Request("DELETE", path_of("knowledge-bases", knowledge_base, "sql-view")))

    def export(self, knowledge_base: str, target: Path | str) -> int:
        """Write all of it to a file, as an archive; returns how many bytes."""
        with self._client.stream(Request("GET", path_of("knowledge-bases", knowledge_base, "export"))) as found:
            return _write(found, target)

    def import_archive(self, knowledge_base: str, archive: bytes) -> Imported:
        """Take in an archive, or its manifest and some of its documents; what is there already is passed over."""
        path = path_of("knowledge-bases", knowledge_base, "import")
        return cast(Imported, self._client.send(Request("POST", path, archive=archive)))


class Documents:
    """The documents of a knowledge base."""

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
        """Upload a file: a path, bytes, or an open binary file; the last two need a ``filename``.

        Waits up to ``wait`` seconds (60 at most) for it to be ready. Raises OSError where the file cannot be read.
        """
        path = path_of("knowledge-bases", knowledge_base, "documents")
        return cast(Document, self._client.send(requesting.upload(path, source, filename, options, wait)))

    def add_text(self, knowledge_base: str, text: str, *, wait: float = 0, **options: Unpack[TextOptions]) -> Document:
        """Upload a text."""
        found = self._client.post(
            "knowledge-bases",
            knowledge_base,
            "documents",
            body={"text": text, **options},
            params={"wait": wait or None},
        )
        return cast(Document, found)

    def list(self, knowledge_base: str, **filters: Unpack[DocumentFilters]) -> Iterator[Document]:
        """All that match, newest first."""
        for item in self._client.pages("knowledge-bases", knowledge_base, "documents", params=filters):
            yield cast(Document, item)

    def get(self, knowledge_base: str, document: str) -> Document:
        """One of them."""
        return cast(Document, self._client.get("knowledge-bases", knowledge_base, "documents", document))

    def update(self, knowledge_base: str, document: str, **changes: Any) -> Document:
        """Change metadata, title, source or scope."""
        found = self._client.patch("knowledge-bases", knowledge_base, "documents", document, body=changes)
        return cast(Document, found)

    def reindex(self, knowledge_base: str, document: str) -> Document:
        """Ingest it again: brings back one that failed."""
        found = self._client.post("knowledge-bases", knowledge_base, "documents", document, "reindex")
        return cast(Document, found)

    def wait(self, knowledge_base: str, document: str, *, seconds: float = 600, poll: float = 0.5) -> Document:
        """The document when it is ready. Raises IngestionFailed, WaitTimeout."""
        deadline = time.monotonic() + seconds
        while (found := self.get(knowledge_base, document))["status"] not in FINAL:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"{found['source']} is {found['status']} after {seconds:g} seconds")
            time.sleep(poll)
        if found["status"] == "failed":
            raise IngestionFailed(found)
        return found

    def delete(self, knowledge_base: str, document: str) -> str:
        """Out of every search at once; the id of the deletion."""
        path = path_of("knowledge-bases", knowledge_base, "documents", document)
        found = self._client.reply(Request("DELETE", path))
        requesting.answer(found)
        return found.headers["Carrel-Deletion-Id"]

    def delete_many(
        self,
        knowledge_base: str,
        *,
        ids: Sequence[str] | None = None,
        external_id: str | None = None,
        filter: Mapping[str, Any] | None = None,
        confirm: str | None = None,
    ) -> Deletion:
        """Delete those of some ids, of an external id, or of a filter; ``{}`` needs the name as ``confirm``."""
        params = {"ids": requesting.document_ids(ids), "external_id": external_id, "filter": filter, "confirm": confirm}
        path = path_of("knowledge-bases", knowledge_base, "documents")
        return cast(Deletion, self._client.send(Request("DELETE", path, requesting.compact(params))))

    def chunks(self, knowledge_base: str, document: str) -> Iterator[Chunk]:
        """Its passages, in their order."""
        for item in self._client.pages("knowledge-bases", knowledge_base, "documents", document, "chunks"):
            yield cast(Chunk, item)

    def download(self, knowledge_base: str, document: str, target: Path | str) -> int:
        """Write the original to a file; returns how many bytes. An S3 store is read by its presigned link."""
        request = Request("GET", path_of("knowledge-bases", knowledge_base, "documents", document, "content"))
        with self._client.stream(request) as found:
            if not found.is_redirect:
                return _write(found, target)
            link = found.headers["Location"]
        # The link carries its own right: the key is not shown to the store.
        with httpx2.Client(timeout=requesting.TIMEOUT_SECONDS) as store, store.stream("GET", link) as found:
            if not found.is_success:
                raise BadReply(f"the object store answers {found.status_code}")
            return _write(found, target)


def _write(found: httpx2.Response, target: Path | str) -> int:
    written = 0
    with Path(target).open("wb") as file:
        for piece in found.iter_bytes():
            written += file.write(piece)
    return written


class ApiKeys:
    """The keys of the tenant; for an admin."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, name: str, role: Role, **settings: Any) -> NewApiKey:
        """Make one; its secret is in ``key`` and nowhere else."""
        return cast(NewApiKey, self._client.post("api-keys", body={"name": name, "role": role, **settings}))

    def list(self) -> Iterator[ApiKey]:
        """All that are valid, newest first."""
        for item in self._client.pages("api-keys"):
            yield cast(ApiKey, item)

    def rotate(self, api_key: str, *, overlap_seconds: int | None = None) -> NewApiKey:
        """Make another in its place; the old one goes on for the overlap."""
        body = requesting.compact({"overlap_seconds": overlap_seconds})
        return cast(NewApiKey, self._client.post("api-keys", api_key, "rotate", body=body))

    def revoke(self, api_key: str) -> None:
        """It is refused from now on, on every replica."""
        self._client.send(Request("DELETE", path_of("api-keys", api_key)))


class Tenants:
    """Tenants; for the operator."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, name: str, *, quotas: Mapping[str, Any] | None = None) -> NewTenant:
        """Make one, with its first key."""
        body = {"name": name, **({} if quotas is None else {"quotas": dict(quotas)})}
        return cast(NewTenant, self._client.post("tenants", body=body))

    def list(self) -> Iterator[Tenant]:
        """All of them, newest first."""
        for item in self._client.pages("tenants"):
            yield cast(Tenant, item)

    def get(self, tenant: str) -> Tenant:
        """One of them."""
        return cast(Tenant, self._client.get("tenants", tenant))

    def update(self, tenant: str, **changes: Any) -> Tenant:
        """Another name, or other quotas."""
        return cast(Tenant, self._client.patch("tenants", tenant, body=changes))

    def delete(self, tenant: str) -> str:
        """Shut its keys out at once and remove what it has; the id of the deletion."""
        found = self._client.reply(Request("DELETE", path_of("tenants", tenant)))
        requesting.answer(found)
        return found.headers["Carrel-Deletion-Id"]


class Agents:
    """What agents are bound to; for an admin."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def bind(self, agent_id: str, knowledge_bases: Sequence[str], **settings: Any) -> dict[str, Any]:
        """Bind one, in place of what it was bound to."""
        body = {"knowledge_bases": [*knowledge_bases], **settings}
        return cast(dict[str, Any], self._client.put("agents", agent_id, body=body))

    def list(self) -> Iterator[dict[str, Any]]:
        """All bindings, newest first."""
        return self._client.pages("agents")

    def get(self, agent_id: str) -> dict[str, Any]:
        """One of them."""
        return cast(dict[str, Any], self._client.get("agents", agent_id))

    def unbind(self, agent_id: str) -> None:
        """From now on it is an agent without a binding."""
        self._client.send(Request("DELETE", path_of("agents", agent_id)))
