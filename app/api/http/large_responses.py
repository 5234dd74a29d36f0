"""Replies whose list is large, written in slices: the event loop serves others between two of them."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Response
from pydantic import BaseModel

from app.retrieval.types import Hit

OutT = TypeVar("OutT", bound=BaseModel)
# A slice takes some milliseconds.
MAX_SLICE_BYTES = 256 * 1024


@dataclass(slots=True)
class LoopYielder:
    """Others get a turn whenever a slice is done."""

    bytes_since_yield: int = 0

    async def add_bytes(self, size: int) -> None:
        """Count what was done."""
        self.bytes_since_yield += size
        if self.bytes_since_yield >= MAX_SLICE_BYTES:
            self.bytes_since_yield = 0
            await asyncio.sleep(0)


async def create_hits_response(
    out: OutT, field_name: str, hits: Iterable[tuple[Hit, Callable[[], BaseModel]]], response: Response
) -> OutT | Response:
    """``out`` with what is made of the hits in its list ``field_name``, which is empty.

    Where that is large it is a response with the headers of ``response``: the same bytes, put together.
    """
    items = list(hits)
    if sum(hit.size_bytes for hit, _ in items) < MAX_SLICE_BYTES:
        return out.model_copy(update={field_name: [make() for _, make in items]})
    # In no string of JSON is a quotation mark without a backslash.
    head, empty_list, tail = out.model_dump_json().partition(f'"{field_name}":[]')
    parts, yielder = [], LoopYielder()
    for hit, make in items:
        parts.append(make().model_dump_json().encode())
        await yielder.add_bytes(max(hit.size_bytes, len(parts[-1])))
    content = b"".join([(head + empty_list[:-1]).encode(), b",".join(parts), b"]", tail.encode()])
    large_response = Response(content, media_type="application/json")
    large_response.headers.raw.extend(response.headers.raw)
    return large_response
