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
SLICE_BYTES = 256 * 1024


@dataclass(slots=True)
class Pauses:
    """Others get a turn whenever a slice is done."""

    done: int = 0

    async def after(self, size: int) -> None:
        """Count what was done."""
        self.done += size
        if self.done >= SLICE_BYTES:
            self.done = 0
            await asyncio.sleep(0)


async def reply_with_hits(
    out: OutT, name: str, hits: Iterable[tuple[Hit, Callable[[], BaseModel]]], response: Response
) -> OutT | Response:
    """``out`` with what is made of the hits in its list ``name``, which is empty.

    Where that is large it is a response with the headers of ``response``: the same bytes, put together.
    """
    made = list(hits)
    if sum(hit.size for hit, _ in made) < SLICE_BYTES:
        return out.model_copy(update={name: [make() for _, make in made]})
    # In no string of JSON is a quotation mark without a backslash.
    head, before, tail = out.model_dump_json().partition(f'"{name}":[]')
    parts, pauses = [], Pauses()
    for hit, make in made:
        parts.append(make().model_dump_json().encode())
        await pauses.after(max(hit.size, len(parts[-1])))
    content = b"".join([(head + before[:-1]).encode(), b",".join(parts), b"]", tail.encode()])
    large = Response(content, media_type="application/json")
    large.headers.raw.extend(response.headers.raw)
    return large
