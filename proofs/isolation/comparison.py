"""Requests of the isolation proof, and the part of a reply that must not depend on whether a foreign id exists."""

import json
import re
import secrets
from collections import Counter
from typing import Any
from urllib.parse import quote

import httpx2

from harness.archives import ArchiveDocument, build_archive
from proofs.isolation.cases import PLACEHOLDER, EndpointCase
from proofs.isolation.tenants import Ids

# Headers that change with time, such as the remaining requests of a rate limit.
VARYING_HEADERS = {
    "date",
    "etag",
    "x-request-id",
    "content-length",
    "server-timing",
    "ratelimit-remaining",
    "ratelimit-reset",
}
CREATED_HEADERS = {"location", "carrel-deletion-id"}
VARYING_FIELDS = {"status", "progress", "version", "live_version", "chunk_count", "sha256", "hint", "bytes"}
VARYING_FIELDS |= {"timings_ms", "carrel/timings_ms"}
# Secrets that are shown once, and fields that the worker changes while it sends the events of a webhook.
VARYING_FIELDS |= {"secret", "failures", "attempts", "reason", "response_status", "attempted_at"}
# Fields with the same value for every tenant.
SHARED_FIELDS = {"prompt", "number"}
# Times in seconds, and fields that ingestion changes during the proof.
VARYING_FIELDS |= {"age_seconds", "created_at", "last_active_at", "usage_bytes", "file_counts"}
sent_counts: Counter[str] = Counter()

ComparableReply = tuple[int, dict[str, str], Any]


def send_case(client: httpx2.Client, case: EndpointCase, ids: Ids) -> httpx2.Response:
    """Send the request of a case with ids in path, query and body."""
    sent_counts["requests"] += 1
    words = {**ids, "fresh": secrets.token_hex(8)}

    def fill_placeholders(value: Any) -> Any:
        return json.loads(PLACEHOLDER.sub(lambda result: words[result[1]], json.dumps(value)))

    path = re.sub(r"{(\w+)}", lambda result: quote(words[result[1]], safe=""), case.endpoint.path)
    template = case.template
    if template.archive:
        content = build_archive(ArchiveDocument([f"A text {words['fresh']} to keep."]))
        return client.request(
            case.endpoint.method, path, content=content, headers={"Content-Type": "application/x-tar"}
        )
    if template.form is None:
        return client.request(
            case.endpoint.method,
            path,
            params=fill_placeholders(dict(template.query)),
            json=fill_placeholders(template.json),
        )
    file = {"file": ("a.txt", f"A file {words['fresh']} to keep.".encode())}
    return client.request(case.endpoint.method, path, data=fill_placeholders(dict(template.form)), files=file)


def has_succeeded(reply: httpx2.Response) -> bool:
    """Return whether a request succeeded. MCP reports errors in the body of a reply with status 200."""
    if reply.request.url.path != "/mcp" or reply.is_error:
        return reply.is_success or reply.is_redirect
    body = reply.json()
    return "error" not in body and not body["result"].get("isError")


def remove_fields(value: Any, names: set[str]) -> Any:
    """Return a JSON value without the named fields, at every level."""
    if isinstance(value, dict):
        return {name: remove_fields(inner, names) for name, inner in value.items() if name not in names}
    return [remove_fields(inner, names) for inner in value] if isinstance(value, list) else value


def build_comparable_reply(reply: httpx2.Response, sent: Ids) -> ComparableReply:
    """Return status, headers and body for a comparison.

    The body of an error is compared except for its request id. The body of a success is compared without created ids
    and varying fields.
    """
    headers = {name: value for name, value in reply.headers.items() if name not in VARYING_HEADERS}
    body = reply.text
    is_json = "json" in headers.get("content-type", "")
    if reply.is_error:
        return reply.status_code, headers, remove_fields(json.loads(body), {"request_id"}) if is_json else body
    for name in CREATED_HEADERS & headers.keys():
        headers[name] = replace_ids(headers[name], sent)
    body = replace_ids(body, sent)
    return reply.status_code, headers, remove_fields(json.loads(body), VARYING_FIELDS) if is_json and body else body


def replace_ids(text: str, sent: Ids) -> str:
    """Replace the sent ids, and all values that differ between any two requests, by names in angle brackets."""
    for name, value in sent.items():
        for form in (value, value.replace("-", "_")) if name not in SHARED_FIELDS else ():  # also as an SQL name
            text = text.replace(form, f"<{name}>")
    text = re.sub(r"\b[a-z]{2,4}_[0-9a-hjkmnp-tv-z]{26}\b", "<id>", text)
    text = re.sub(r"\ba-store(-[0-9a-f]{8})?\b", "<store>", text)  # a second vector store gets a name with a suffix
    text = re.sub(r"\bcarrel_\w{38}\b", "<key>", text)
    text = re.sub(r"\bcarrel_sql_view_[0-9a-f]{32}\b", "<role>", text)
    text = re.sub(r"\bcarrel_db_[\w-]{32}", "<password>", text)
    text = re.sub(r"\b[0-9a-f]{16} to keep\b", "<fresh> to keep", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)
