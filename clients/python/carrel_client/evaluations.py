"""Golden sets and evaluations. ``generate.py`` makes this file from ``async_evaluations.py``; edit that."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from carrel_client.errors import WaitTimeout
from carrel_client.http_requests import Request, build_path, to_query_params
from carrel_client.types import EvaluationReply, EvaluationResult, GoldenItemInput, GoldenItemReply, GoldenSetReply

if TYPE_CHECKING:
    from carrel_client.sync_client import Client

_ACTIVE = frozenset({"queued", "running"})


class GoldenSets:
    """Operations on golden sets: queries whose relevant documents are known. They require the role writer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, name: str, *, description: str | None = None) -> GoldenSetReply:
        """Create a golden set without items."""
        body = to_query_params({"name": name, "description": description})
        return cast(GoldenSetReply, self._client.post("golden-sets", body=body))

    def list(self) -> Iterator[GoldenSetReply]:
        """Yield all golden sets, newest first."""
        for item in self._client.pages("golden-sets"):
            yield cast(GoldenSetReply, item)

    def get(self, golden_set: str) -> GoldenSetReply:
        """Return one golden set."""
        return cast(GoldenSetReply, self._client.get("golden-sets", golden_set))

    def update(self, golden_set: str, *, if_match: str | None = None, **changes: Any) -> GoldenSetReply:
        """Change the name or the description of a golden set; with ``if_match``, only if it has this ETag."""
        return cast(GoldenSetReply, self._client.patch("golden-sets", golden_set, body=changes, if_match=if_match))

    def delete(self, golden_set: str) -> None:
        """Delete a golden set with its items and its evaluations."""
        self._client.send(Request("DELETE", build_path("golden-sets", golden_set)))

    def items(self, golden_set: str) -> Iterator[GoldenItemReply]:
        """Yield the items of a golden set, newest first."""
        for item in self._client.pages("golden-sets", golden_set, "items"):
            yield cast(GoldenItemReply, item)

    def add_items(self, golden_set: str, items: Sequence[GoldenItemInput]) -> Sequence[GoldenItemReply]:
        """Add up to 500 items. If an item has the same query, what is relevant is added to that item."""
        reply = self._client.post("golden-sets", golden_set, "items", body={"items": [*items]})
        return cast(Sequence[GoldenItemReply], reply["items"])

    def delete_item(self, golden_set: str, item: str) -> None:
        """Delete an item of a golden set."""
        self._client.send(Request("DELETE", build_path("golden-sets", golden_set, "items", item)))

    def remove_relevant(self, golden_set: str, item: str, document: str, *, chunk: str | None = None) -> None:
        """Remove one relevant document or chunk from an item. The last one cannot be removed."""
        path = build_path("golden-sets", golden_set, "items", item, "relevant")
        self._client.send(Request("DELETE", path, to_query_params({"document": document, "chunk": chunk})))


class Evaluations:
    """Operations on evaluations of golden sets. They require the role writer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, golden_set: str, settings: Sequence[Mapping[str, Any]] = ({},)) -> EvaluationReply:
        """Start an evaluation with one or two search settings. The first setting is the baseline."""
        body = {"set": golden_set, "settings": [dict(setting) for setting in settings]}
        return cast(EvaluationReply, self._client.post("evaluations", body=body))

    def list(self, *, golden_set: str | None = None) -> Iterator[EvaluationReply]:
        """Yield the evaluations, newest first, of one golden set or of all."""
        for item in self._client.pages("evaluations", params={"set": golden_set}):
            yield cast(EvaluationReply, item)

    def get(self, evaluation: str) -> EvaluationReply:
        """Return an evaluation with its state, progress and figures."""
        return cast(EvaluationReply, self._client.get("evaluations", evaluation))

    def wait(
        self, evaluation: str, *, timeout_seconds: float = 3600.0, poll_interval_seconds: float = 0.5
    ) -> EvaluationReply:
        """Wait until an evaluation is done or has failed, and return it. Raises WaitTimeout."""
        deadline = time.monotonic() + timeout_seconds
        while (current := self.get(evaluation))["state"] in _ACTIVE:
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"the evaluation {evaluation} is {current['state']} after {timeout_seconds:g} s")
            time.sleep(poll_interval_seconds)
        return current

    def results(
        self, evaluation: str, *, measure: str | None = None, change: str | None = None
    ) -> Iterator[EvaluationResult]:
        """Yield the results by query.

        Args:
            evaluation: ID of the evaluation.
            measure: Measure that ``change`` compares; nDCG@10 by default.
            change: Only queries that got ``better`` or ``worse``, or stayed ``equal``.
        """
        params = {"measure": measure, "change": change, "limit": 200}
        for item in self._client.pages("evaluations", evaluation, "results", params=params):
            yield cast(EvaluationResult, item)

    def delete(self, evaluation: str) -> None:
        """Delete an evaluation with its results. A running evaluation ends."""
        self._client.send(Request("DELETE", build_path("evaluations", evaluation)))
