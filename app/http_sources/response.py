"""Parsing of the responses of HTTP sources. Every value is checked, and only the requested results are read."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from app.http_sources.paths import EVALUATION_ERRORS, compile_path
from app.http_sources.secret_detection import repeats_secret
from app.http_sources.types import HttpSource, SourceResult
from app.inference.circuit_breaker import EndpointFailed
from app.text_normalization import has_long_mark_run

# Maximum number of decoded values of a response. A path of 40 steps visits each value 40 times, which takes 0.25 s.
MAX_VALUES, MAX_ITEMS = 10_000, 1000
CompiledPaths = Mapping[str, Any]
FlagDetector = Callable[[str], Sequence[str]]
MAX_TEXT_CHARACTERS, MAX_TITLE_CHARACTERS, MAX_URL_CHARACTERS = 20_000, 500, 2048


def parse_response(
    content: bytes, source: HttpSource, *, max_results: int, detect_flags: FlagDetector, secrets: Sequence[str] = ()
) -> list[SourceResult]:
    """Return the first results that have a text; blocking for the evaluation of paths.

    Args:
        content: Body of the response.
        source: The source, with the paths of the results.
        max_results: Maximum number of results.
        detect_flags: Returns the flags of a text.
        secrets: Secrets of the request; a response that repeats a secret is refused.

    Raises:
        EndpointFailed: The response has no valid results.
    """
    reply = parse_json(content, secrets)
    paths = {name: compile_path(path) for name, path in asdict(source.response).items() if path is not None}
    items = _select_value(paths, "items", reply)
    if items is None:
        return []  # many services leave out an empty list
    if not isinstance(items, list):
        raise EndpointFailed("its response has no list of results")
    results: list[SourceResult] = []
    for item in items[:MAX_ITEMS]:
        result = _parse_item(item, paths, source.url)
        if result is not None and (not source.domains or _is_in_domains(result.url, source.domains)):
            results.append(replace(result, flags=detect_flags(result.text)))
        if len(results) == max_results:
            break
    if items and not results and not source.domains:
        raise EndpointFailed("its results have no text")
    return results


def parse_json(content: bytes, secrets: Sequence[str]) -> Any:
    """Return the JSON of a response.

    Args:
        content: Body of the response.
        secrets: Secrets of the request.

    Raises:
        EndpointFailed: The body is not JSON, has too many values, or repeats a secret.
    """
    try:
        reply = json.loads(content)
        _check_size(reply)
        repeats = repeats_secret(content, reply, secrets)
    except (ValueError, RecursionError) as exc:
        raise EndpointFailed("its response is not JSON") from exc
    if repeats:
        raise EndpointFailed("its response repeats the secret of the request")
    return reply


def _parse_item(item: Any, paths: CompiledPaths, base: str) -> SourceResult | None:
    text = clean_text(_select_value(paths, "text", item))
    if text is None:
        return None
    return SourceResult(
        text=text,
        title=clean_text(_select_value(paths, "title", item), MAX_TITLE_CHARACTERS),
        url=parse_address(_select_value(paths, "url", item), base),
        score=_parse_number(_select_value(paths, "score", item)),
    )


def _select_value(paths: CompiledPaths, name: str, value: Any) -> Any:
    try:
        return paths[name].search(value) if name in paths else None
    except EVALUATION_ERRORS as exc:
        raise EndpointFailed("its response does not match the configured paths") from exc


def _check_size(reply: Any) -> None:
    """Refuse a response with too many values. Not recursive, because a response may be nested deeply."""
    pending, value_count = [reply], 0
    while pending:
        value = pending.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        value_count += len(inner)
        if value_count > MAX_VALUES:
            raise EndpointFailed("its response has too many values")
        pending += inner


def clean_text(value: Any, max_characters: int = MAX_TEXT_CHARACTERS) -> str | None:
    """Return a text that can be stored and shown, or None for an empty or other value."""
    if not isinstance(value, str):
        return None
    clean = value[:max_characters].replace("\0", " ").encode("utf-8", "replace").decode().strip()
    return clean or None


def parse_address(value: Any, base: str) -> str | None:
    """Return a web address, or None. Only http and https are allowed, because pages show it as a link.

    A relative address is relative to the endpoint.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    # Parsing normalizes the host, which is slow for long runs of combining marks.
    if len(value) > MAX_URL_CHARACTERS or has_long_mark_run(value):
        return None
    try:
        address = urljoin(base, value.strip())
        parts = urlsplit(address)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return None
    is_plain = address.isprintable() and " " not in address and len(address) <= MAX_URL_CHARACTERS
    return address if is_complete and is_plain else None


def _is_in_domains(address: str | None, domains: Sequence[str]) -> bool:
    host = (urlsplit(address).hostname or "") if address else ""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
