"""Reading a reply: nothing in it is believed before it has been checked, and no more is read than is wanted."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from app.characters import has_long_mark_run
from app.http_sources.echoes import repeats_secret
from app.http_sources.paths import FAILURES, compiled
from app.http_sources.types import Found, HttpSource
from app.inference.breaker import EndpointFailed

# Of a reply, in decoded values: a path may look at each with each of its 40 steps, which takes a quarter of a second.
MOST_VALUES, MOST_ITEMS = 10_000, 1000
Paths = Mapping[str, Any]
Flags = Callable[[str], Sequence[str]]
LONGEST_TEXT, LONGEST_TITLE, LONGEST_URL = 20_000, 500, 2048


def read_reply(
    content: bytes, source: HttpSource, *, most: int, flags: Flags, secrets: Sequence[str] = ()
) -> list[Found]:
    """The first results with a text; blocking, for as long as paths take.

    ``secrets`` are the request's: a reply that repeats one is not read. Raises EndpointFailed.
    """
    try:
        reply = json.loads(content)
        _check_size(reply)
        repeats = repeats_secret(content, reply, secrets)
    except (ValueError, RecursionError) as exc:
        raise EndpointFailed("it is no JSON") from exc
    if repeats:
        raise EndpointFailed("its answer repeats the secret of its request")
    paths = {name: compiled(path) for name, path in asdict(source.response).items() if path is not None}
    items = _chosen(paths, "items", reply)
    if items is None:
        return []  # many leave the list out where there is nothing to list
    if not isinstance(items, list):
        raise EndpointFailed("it holds no list of results")
    found: list[Found] = []
    for item in items[:MOST_ITEMS]:
        one = _found(item, paths, source.url)
        if one is not None and (not source.domains or _is_below(one.url, source.domains)):
            found.append(replace(one, flags=flags(one.text)))
        if len(found) == most:
            break
    if items and not found and not source.domains:
        raise EndpointFailed("its results have no text")
    return found


def _found(item: Any, paths: Paths, base: str) -> Found | None:
    text = _text(_chosen(paths, "text", item), LONGEST_TEXT)
    if text is None:
        return None
    return Found(
        text=text,
        title=_text(_chosen(paths, "title", item), LONGEST_TITLE),
        url=_address(_chosen(paths, "url", item), base),
        score=_number(_chosen(paths, "score", item)),
    )


def _chosen(paths: Paths, name: str, value: Any) -> Any:
    try:
        return paths[name].search(value) if name in paths else None
    except FAILURES as exc:
        raise EndpointFailed("its paths do not fit") from exc


def _check_size(reply: Any) -> None:
    """Without recursion: a reply may be as deep as it is long."""
    waiting, seen = [reply], 0
    while waiting:
        value = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        seen += len(inner)
        if seen > MOST_VALUES:
            raise EndpointFailed("it has too many values")
        waiting += inner


def _text(value: Any, most: int) -> str | None:
    """What can be stored and shown, None where it is none."""
    if not isinstance(value, str):
        return None
    clean = value[:most].replace("\0", " ").encode("utf-8", "replace").decode().strip()
    return clean or None


def _address(value: Any, base: str) -> str | None:
    """A web address and nothing else, since others show it as a link; a relative one is the endpoint's."""
    if not isinstance(value, str) or not value.strip():
        return None
    # To take it apart, its host is normalized.
    if len(value) > LONGEST_URL or has_long_mark_run(value):
        return None
    try:
        address = urljoin(base, value.strip())
        parts = urlsplit(address)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return None
    plain = address.isprintable() and " " not in address and len(address) <= LONGEST_URL
    return address if whole and plain else None


def _is_below(address: str | None, domains: Sequence[str]) -> bool:
    host = (urlsplit(address).hostname or "") if address else ""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
