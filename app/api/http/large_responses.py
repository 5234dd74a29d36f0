"""Responses with a large list, serialized in slices. The event loop serves other requests between two slices."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Response
from pydantic import BaseModel

from app.retrieval.types import Hit

OutT = TypeVar("OutT", bound=BaseModel)
# Serializing a slice takes a few milliseconds.
MAX_SLICE_BYTES = 256 * 1024


@dataclass(slots=True)
class LoopYielder:
    """Counter of serialized bytes that yields to other tasks after each slice."""

    bytes_since_yield: int = 0

    async def add_bytes(self, size: int) -> None:
        """Add serialized bytes, and yield to other tasks if a slice is complete."""
        self.bytes_since_yield += size
        if self.bytes_since_yield >= MAX_SLICE_BYTES:
            self.bytes_since_yield = 0
            await asyncio.sleep(0)


async def create_hits_response(
    out: OutT, field_name: str, hits: Iterable[tuple[Hit, Callable[[], BaseModel]]], response: Response
) -> OutT | Response:
    """Fill the list of hits in a response model.

    Args:
        out: Response model whose list ``field_name`` is empty.
        field_name: Name of the list.
        hits: Hits, each with the function that creates its list item.
        response: Response whose headers a large response gets.

    Returns:
        A copy of ``out`` with the list. If the hits are larger than ``MAX_SLICE_BYTES``, a response with the same JSON.
    """
    items = list(hits)
    if sum(hit.size_bytes for hit, _ in items) < MAX_SLICE_BYTES:
        return out.model_copy(update={field_name: [make() for _, make in items]})
    # This text cannot occur inside a JSON string, because a quotation mark in a string has a backslash before it.
    head, empty_list, tail = out.model_dump_json().partition(f'"{field_name}":[]')
    parts, yielder = [], LoopYielder()
    for hit, make in items:
        parts.append(make().model_dump_json().encode())
        await yielder.add_bytes(max(hit.size_bytes, len(parts[-1])))
    content = b"".join([(head + empty_list[:-1]).encode(), b",".join(parts), b"]", tail.encode()])
    large_response = Response(content, media_type="application/json")
    large_response.headers.raw.extend(response.headers.raw)
    return large_response
