"""Queries in languages that the embedding models of the searched knowledge bases do not read."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.model_registry import Embedders
from app.retrieval.language_check import MAX_QUERIES, warn_unread_languages
from app.retrieval.search_run import SearchRun
from app.retrieval.types import Query

ENGLISH_MODEL = EmbeddingIdentity("bge-small-en-v1.5", 384, "int8", "", "")
GERMAN = "Wie lange ist die Kündigungsfrist für eine Wohnung?"
ENGLISH = "How long is the notice period for a flat?"


def list_notices(texts: list[str], identities: list[EmbeddingIdentity]) -> list[str]:
    targets: Any = [
        SimpleNamespace(
            kb=SimpleNamespace(display_name=f"'kb{number}'", index=SimpleNamespace(identity=asdict(identity)))
        )
        for number, identity in enumerate(identities)
    ]
    default: Any = SimpleNamespace(identity=ENGLISH_MODEL)
    search_run = SearchRun.from_timeout(1)
    warn_unread_languages([Query(text) for text in texts], targets, Embedders(default), search_run)
    return [notice.message for notice in search_run.notices]


def test_each_knowledge_base_with_an_english_model_has_a_notice() -> None:
    endpoint = EmbeddingIdentity("bge-small-en-v1.5", 384, "remote", "", "")
    notices = list_notices([ENGLISH, GERMAN], [ENGLISH_MODEL, endpoint, ENGLISH_MODEL])
    assert [name for name in ("'kb0'", "'kb1'", "'kb2'") if any(name in notice for notice in notices)] == [
        "'kb0'",
        "'kb2'",
    ]
    assert all(notice.startswith("The query is probably in German") for notice in notices)


@pytest.mark.parametrize("texts", [[ENGLISH], [], [*[ENGLISH] * MAX_QUERIES, GERMAN]])
def test_no_other_language_in_the_first_queries_has_no_notice(texts: list[str]) -> None:
    assert list_notices(texts, [ENGLISH_MODEL] * 3) == []
