"""Golden sets and evaluations, for asyncio. ``generate.py`` makes ``evaluations.py`` from this file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from carrel_client.errors import WaitTimeout
from carrel_client.http_requests import Request, build_path, to_query_params
from carrel_client.types import EvaluationReply, EvaluationResult, GoldenItemInput, GoldenItemReply, GoldenSetReply

if TYPE_CHECKING:
    from carrel_client.async_client import AsyncClient

_ACTIVE = frozenset({"queued", "running"})


class AsyncGoldenSets:
    """Operations on golden sets: queries whose relevant documents are known. They require the role writer."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, name: str, *, description: str | None = None) -> GoldenSetReply:
        """Create a golden set without items."""
        body = to_query_params({"name": name, "description": description})
        return cast(GoldenSetReply, await self._client.post("golden-sets", body=body))

    async def list(self) -> AsyncIterator[GoldenSetReply]:
        """Yield all golden sets, newest first."""
        async for item in self._client.pages("golden-sets"):
            yield cast(GoldenSetReply, item)

    async def get(self, golden_set: str) -> GoldenSetReply:
        """Return one golden set."""
        return cast(GoldenSetReply, await self._client.get("golden-sets", golden_set))

    async def update(self, golden_set: str, *, if_match: str | None = None, **changes: Any) -> GoldenSetReply:
        """Change the name or the description of a golden set; with ``if_match``, only if it has this ETag."""
        return cast(
            GoldenSetReply, await self._client.patch("golden-sets", golden_set, body=changes, if_match=if_match)
        )

    async def delete(self, golden_set: str) -> None:
        """Delete a golden set with its items and its evaluations."""
        await self._client.send(Request("DELETE", build_path("golden-sets", golden_set)))

    async def items(self, golden_set: str) -> AsyncIterator[GoldenItemReply]:
        """Yield the items of a golden set, newest first."""
        async for item in self._client.pages("golden-sets", golden_set, "items"):
            yield cast(GoldenItemReply, item)

    async def add_items(self, golden_set: str, items: Sequence[GoldenItemInput]) -> Sequence[GoldenItemReply]:
        """Add up to 500 items. If an item has the same query, what is relevant is added to that item."""
        reply = await self._client.post("golden-sets", golden_set, "items", body={"items": [*items]})
        return cast(Sequence[GoldenItemReply], reply["items"])

    async def delete_item(self, golden_set: str, item: str) -> None:
        """Delete an item of a golden set."""
        await self._client.send(Request("DELETE", build_path("golden-sets", golden_set, "items", item)))

    async def remove_relevant(self, golden_set: str, item: str, document: str, *, chunk: str | None = None) -> None:
        """Remove one relevant document or chunk from an item. The last one cannot be removed."""
        path = build_path("golden-sets", golden_set, "items", item, "relevant")
        await self._client.send(Request("DELETE", path, to_query_params({"document": document, "chunk": chunk})))


class AsyncEvaluations:
    """Operations on evaluations of golden sets. They require the role writer."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(self, golden_set: str, settings: Sequence[Mapping[str, Any]] = ({},)) -> EvaluationReply:
        """Start an evaluation with one or two search settings. The first setting is the baseline."""
        body = {"set": golden_set, "settings": [dict(setting) for setting in settings]}
        return cast(EvaluationReply, await self._client.post("evaluations", body=body))

    async def list(self, *, golden_set: str | None = None) -> AsyncIterator[EvaluationReply]:
        """Yield the evaluations, newest first, of one golden set or of all."""
        async for item in self._client.pages("evaluations", params={"set": golden_set}):
            yield cast(EvaluationReply, item)

    async def get(self, evaluation: str) -> EvaluationReply:
        """Return an evaluation with its state, progress and figures."""
        return cast(EvaluationReply, await self._client.get("evaluations", evaluation))

    async def wait(
        self, evaluation: str, *, timeout_seconds: float = 3600.0, poll_interval_seconds: float = 0.5
    ) -> EvaluationReply:
        """Wait until an evaluation is done or has failed, and return it. Raises WaitTimeout."""
        deadline = time.monotonic() + timeout_seconds
        while (current := await self.get(evaluation))["state"] in _ACTIVE:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"the evaluation {evaluation} is {current['state']} after {timeout_seconds:g} s")
            await asyncio.sleep(poll_interval_seconds)
        return current

    async def results(
        self, evaluation: str, *, measure: str | None = None, change: str | None = None
    ) -> AsyncIterator[EvaluationResult]:
        """Yield the results by query.

        Args:
            evaluation: ID of the evaluation.
            measure: Measure that ``change`` compares; nDCG@10 by default.
            change: Only queries that got ``better`` or ``worse``, or stayed ``equal``.
        """
        params = {"measure": measure, "change": change, "limit": 200}
        async for item in self._client.pages("evaluations", evaluation, "results", params=params):
            yield cast(EvaluationResult, item)

    async def delete(self, evaluation: str) -> None:
        """Delete an evaluation with its results. A running evaluation ends."""
        await self._client.send(Request("DELETE", build_path("evaluations", evaluation)))
