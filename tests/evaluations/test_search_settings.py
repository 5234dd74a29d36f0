"""Stored search settings of evaluations: every field of a search is stored, or named with the reason."""

from dataclasses import fields
from datetime import UTC, datetime
from uuid import UUID

from app.documents.scopes import DocumentScope
from app.evaluations.search_settings import SearchSettings
from app.evaluations.types import GoldenItem
from app.retrieval.routes import RoutingOptions
from app.retrieval.types import Expansion, Message, SearchRequest

# Fields that come from the item, that change no rank, or that only agents and answers set.
NOT_STORED = {
    *("queries", "messages"),
    *("return_vectors", "include", "explain", "notices"),
    *("stored_transformers", "stored_conversation", "prompts", "max_text_characters", "has_citation_prefix"),
    *("needs_analysis", "accepts_graph_text"),
}


def test_search_settings_have_every_field_of_a_search() -> None:
    names = {field.name for field in fields(SearchSettings)}
    assert names | NOT_STORED == {field.name for field in fields(SearchRequest)}
    assert not names & NOT_STORED


def test_search_settings_survive_storage() -> None:
    settings = SearchSettings(
        knowledge_bases=["handbook"],
        top_k=20,
        score_threshold="auto",
        strategy="hybrid",
        strategy_options={"dense_weight": 0.5},
        transformers=["keywords", ("hyde", {"count": 2})],
        filter={"year": {"gte": 2024}},
        scope=DocumentScope("user", "chat", "agent"),
        routing=RoutingOptions(2),
        expansion=Expansion("parent", merge_share=0.5),
        combine="sum",
        collapse=True,
    )
    assert SearchSettings.from_json(settings.to_json()) == settings
    now = datetime(2026, 1, 2, tzinfo=UTC)
    item = GoldenItem(UUID(int=1), None, [{"role": "user", "content": "q"}], [], now, now)
    request = settings.to_request(item)
    assert (request.queries, request.messages) == ([], [Message("user", "q")])
    assert SearchSettings.from_request(request) == settings
