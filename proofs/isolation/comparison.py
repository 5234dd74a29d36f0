"""Sending a case, and what of its reply may not differ between another's ids and ids of nothing."""

import json
import re
import secrets
from collections import Counter
from typing import Any
from urllib.parse import quote

import httpx2

from harness.archives import Doc, archive
from proofs.isolation.cases import PLACE, EndpointCase
from proofs.isolation.tenants import Ids

# What depends on the moment; of a rate, what is left and when it is full again.
PER_REQUEST = {"date", "x-request-id", "content-length", "server-timing", "ratelimit-remaining", "ratelimit-reset"}
MADE = {"location", "carrel-deletion-id"}
PER_OBJECT = {"status", "progress", "version", "live_version", "chunk_count", "sha256", "hint", "bytes"}
PER_OBJECT |= {"timings_ms", "carrel/timings_ms"}
# Shown once; and what a worker changes by itself while it tries to reach the receiver of a webhook.
PER_OBJECT |= {"secret", "failures", "attempts", "reason", "response_status", "attempted_at"}
# Everybody's: the same ones are sent whoever is asked for.
COMMON = {"prompt", "number"}
# Times in seconds, and what ingestion comes to while one looks.
PER_OBJECT |= {"created_at", "last_active_at", "usage_bytes", "file_counts"}
tried: Counter[str] = Counter()

Outcome = tuple[int, dict[str, str], Any]


def send(client: httpx2.Client, case: EndpointCase, ids: Ids) -> httpx2.Response:
    """One request, with these ids in path, query and body."""
    tried["requests"] += 1
    words = {**ids, "fresh": secrets.token_hex(8)}

    def filled(value: Any) -> Any:
        return json.loads(PLACE.sub(lambda found: words[found[1]], json.dumps(value)))

    path = re.sub(r"{(\w+)}", lambda found: quote(words[found[1]], safe=""), case.endpoint.path)
    template = case.template
    if template.archive:
        content = archive(Doc([f"A text {words['fresh']} to keep."]))
        return client.request(
            case.endpoint.method, path, content=content, headers={"Content-Type": "application/x-tar"}
        )
    if template.form is None:
        return client.request(
            case.endpoint.method, path, params=filled(dict(template.query)), json=filled(template.json)
        )
    file = {"file": ("a.txt", f"A file {words['fresh']} to keep.".encode())}
    return client.request(case.endpoint.method, path, data=filled(dict(template.form)), files=file)


def succeeded(reply: httpx2.Response) -> bool:
    """Whether it did what was asked: a message of MCP says inside of the reply that it did not."""
    if reply.request.url.path != "/mcp" or reply.is_error:
        return reply.is_success or reply.is_redirect
    body = reply.json()
    return "error" not in body and not body["result"].get("isError")


def without(value: Any, names: set[str]) -> Any:
    """The same without these fields, wherever they are."""
    if isinstance(value, dict):
        return {name: without(inner, names) for name, inner in value.items() if name not in names}
    return [without(inner, names) for inner in value] if isinstance(value, list) else value


def outcome(reply: httpx2.Response, sent: Ids) -> Outcome:
    """Status, headers and body as far as they may not differ: an error exactly, a success but for what it made."""
    headers = {name: value for name, value in reply.headers.items() if name not in PER_REQUEST}
    body = reply.text
    is_json = "json" in headers.get("content-type", "")
    if reply.is_error:
        return reply.status_code, headers, without(json.loads(body), {"request_id"}) if is_json else body
    for name in MADE & headers.keys():
        headers[name] = generic(headers[name], sent)
    body = generic(body, sent)
    return reply.status_code, headers, without(json.loads(body), PER_OBJECT) if is_json and body else body


def generic(text: str, sent: Ids) -> str:
    """With names for what was sent and for what differs between any two requests."""
    for name, value in sent.items():
        for form in (value, value.replace("-", "_")) if name not in COMMON else ():  # also as a name of SQL
            text = text.replace(form, f"<{name}>")
    text = re.sub(r"\b[a-z]{2,4}_[0-9a-hjkmnp-tv-z]{26}\b", "<id>", text)
    text = re.sub(r"\ba-store(-[0-9a-f]{8})?\b", "<store>", text)  # a second one gets another name
    text = re.sub(r"\bcarrel_\w{38}\b", "<key>", text)
    text = re.sub(r"\bcarrel_pub_[0-9a-f]{32}\b", "<role>", text)
    text = re.sub(r"\bcarrel_db_[\w-]{32}", "<password>", text)
    text = re.sub(r"\b[0-9a-f]{16} to keep\b", "<fresh> to keep", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>", text)
