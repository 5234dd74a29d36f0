"""Kind ``agent_search``: an endpoint that gets the messages of a conversation and returns an array of texts."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self
from uuid import UUID

import httpx2

from app.errors import InvalidInputError
from app.http_sources.allowlist import AllowedRequest, SourceAllowlist
from app.http_sources.client import DEFAULT_HEADERS, HttpSourceClient
from app.http_sources.response import FlagDetector, clean_text, parse_json
from app.http_sources.types import HttpSource, ResponsePaths, SourceQuery, SourceResult
from app.inference.circuit_breaker import EndpointFailed
from app.source_kinds.types import parse_secret_name

_HOSTNAME = re.compile(r"(?:(https?)://)?([a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]{2,45}\])/?", re.IGNORECASE)
_PORTS = {"https": 443, "http": 80}
# Roles of the contract by role of a message. Messages of other roles are not sent.
_ROLES = {"user": "customer", "customer": "customer", "assistant": "agent", "agent": "agent", "tool": "tool"}
# Fields of the block by the part of the HTTP request that an error names.
_LOCATIONS = {"url": "hostname", "headers": "api_key", "method": "hostname", "params": "hostname"}


@dataclass(frozen=True, slots=True)
class AgentSearchSource:
    """Endpoint of the external-search contract, with the fields of the block ``type: external`` of agent platforms."""

    kind: ClassVar[str] = "agent_search"
    default_transformers: ClassVar[Sequence[str]] = ()
    takes_conversation: ClassVar[bool] = True

    hostname: str
    path: str
    port: int | None = None
    api_key: str | None = None
    top_k: int = 5
    max_messages: int = 20
    timeout_seconds: float = 5.0
    type: Literal["external"] = "external"

    embedding_model: ClassVar[None] = None
    embedding_dimensions: ClassVar[None] = None

    @classmethod
    def from_stored(cls, source: Mapping[str, Any]) -> Self:
        """Create a source from its stored JSON."""
        return cls(**source)

    def build_request_source(self) -> HttpSource:
        """Return the request as an HTTP source, which the allowlist of HTTP sources checks.

        Raises:
            InvalidInputError: The host or the API key is not valid.
        """
        match = _HOSTNAME.fullmatch(self.hostname)
        if match is None:
            message = "Give a host such as search.example.com, with or without https://, and the port in port."
            raise InvalidInputError(message, loc=("body", "source", "hostname"))
        scheme = (match[1] or "https").lower()
        secret = parse_secret_name(self.api_key, ("body", "source", "api_key"))
        return HttpSource(
            url=f"{scheme}://{match[2]}:{self.port or _PORTS[scheme]}{self.path}",
            response=ResponsePaths("@", "@"),
            method="POST",
            headers={} if secret is None else {"Authorization": {"secret": secret}},
            timeout_seconds=self.timeout_seconds,
        )


def authorize(source: AgentSearchSource, allowlist: SourceAllowlist, tenant_id: UUID) -> AllowedRequest:
    """Return the allowed request of a source. Raises InvalidInputError with the field of the block."""
    try:
        allowed = allowlist.authorize(source.build_request_source(), tenant_id)
    except InvalidInputError as exc:
        name = str(exc.loc[-1])
        raise InvalidInputError(exc.message, loc=("body", "source", _LOCATIONS.get(name, name))) from exc
    headers = {name: value if " " in value else f"Bearer {value}" for name, value in allowed.headers.items()}
    return replace(allowed, headers=headers, secrets=list(headers.values()))


async def query_agent_search(
    client: HttpSourceClient,
    source: AgentSearchSource,
    source_query: SourceQuery,
    *,
    tenant_id: UUID,
    kb_id: UUID,
    timeout_seconds: float,
) -> list[SourceResult]:
    """Send the messages of a conversation, or a query as one message, and return the texts of the reply.

    Args:
        client: Client of HTTP sources.
        source: The source.
        source_query: Query, messages and number of results.
        tenant_id: Tenant of the knowledge base.
        kb_id: Knowledge base of the source.
        timeout_seconds: Maximum time; the source may have a lower limit.

    Returns:
        The texts in the order of the reply, at most ``top_k`` of the source.

    Raises:
        SourceUnavailable: The endpoint fails, does not answer in time, or is not allowed.
    """
    top_k = min(source_query.top_k, source.top_k)

    def build_request() -> tuple[AllowedRequest, httpx2.Request]:
        allowed = authorize(source, client.allowlist, tenant_id)
        body = {"messages": _build_messages(source_query, source.max_messages), "top_k": top_k}
        headers = {**DEFAULT_HEADERS, **allowed.headers, "Content-Type": "application/json"}
        content = json.dumps(body).encode()
        return allowed, httpx2.Request("POST", allowed.address, headers=headers, content=content)

    def parse(content: bytes, secrets: Sequence[str], detect_flags: FlagDetector) -> list[SourceResult]:
        return parse_snippets(content, max_results=top_k, secrets=secrets, detect_flags=detect_flags)

    return await client.send_request(
        build_request,
        parse,
        breaker_key=(kb_id, f"{source.hostname}{source.path}"),
        timeout_seconds=min(timeout_seconds, source.timeout_seconds),
        source_timeout_seconds=source.timeout_seconds,
    )


def _build_messages(source_query: SourceQuery, max_messages: int) -> list[dict[str, str]]:
    """Return the newest messages in the roles of the contract; without messages, the query as a customer's message."""
    messages = [
        {"role": _ROLES[role], "content": content.encode("utf-8", "replace").decode()}
        for role, content in source_query.messages
        if role in _ROLES and content.strip()
    ]
    query = source_query.query.encode("utf-8", "replace").decode()
    return messages[-max_messages:] or [{"role": "customer", "content": query}]


def parse_snippets(
    content: bytes, *, max_results: int, secrets: Sequence[str], detect_flags: FlagDetector
) -> list[SourceResult]:
    """Return the texts of a reply, which is a bare JSON array of strings.

    Args:
        content: Body of the reply.
        max_results: Maximum number of results.
        secrets: Secrets of the request; a reply that repeats a secret is refused.
        detect_flags: Returns the flags of a text.

    Raises:
        EndpointFailed: The reply is no array of strings.
    """
    reply = parse_json(content, secrets)
    if not isinstance(reply, list) or not all(isinstance(item, str) for item in reply):
        raise EndpointFailed("its response is not an array of texts")
    texts = [text for item in reply[:max_results] if (text := clean_text(item)) is not None]
    return [SourceResult(text, None, None, None, detect_flags(text)) for text in texts]
