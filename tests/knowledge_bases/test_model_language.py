"""Languages of embedding models: local models are known, models of endpoints with the same names are not."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.factory import create_embedders
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.model_language import (
    MULTILINGUAL_MODEL,
    build_document_warning,
    find_multilingual_embedder,
    is_english_only,
)
from app.settings import load_settings

ENDPOINT = "http://127.0.0.1:9/v1"
GERMAN = "Die Kündigungsfrist für die Wohnung beträgt drei Monate zum Ende des Quartals, und der Mieter schreibt."
NOBODY: Any = None  # the store of rate limits, which these embedders do not have


def create(*additional: dict[str, Any], **embedding: Any) -> Embedders:
    settings = load_settings(embedding={**embedding, "CARREL_EMBEDDING_MODELS": json.dumps(additional)})
    return create_embedders(settings.embedding, bulk_threads=1, rate_limit_store=NOBODY)


@pytest.mark.parametrize("model", ["bge-small-en-v1.5", "all-MiniLM-L6-v2"])
def test_english_local_model_has_the_precision_of_a_local_model(model: str) -> None:
    local = EmbeddingIdentity(model, 384, "int8", "", "")
    assert is_english_only(local)
    assert is_english_only({**asdict(local), "analyzer": "english/1"})
    for precision in ("remote", "onnx-mean", "fp16"):
        assert not is_english_only(replace(local, precision=precision))


async def test_endpoint_with_the_name_of_an_english_model_has_no_warning() -> None:
    made = create(
        CARREL_EMBEDDING_BASE_URL=ENDPOINT, CARREL_EMBEDDING_DIMENSIONS=384, CARREL_EMBEDDING_MODEL="all-MiniLM-L6-v2"
    )
    assert build_document_warning(GERMAN, made.default.identity, made) is None
    await made.close()


@pytest.mark.parametrize("dimensions", [384, 1024])
async def test_endpoint_with_the_name_of_the_multilingual_model_is_not_chosen(dimensions: int) -> None:
    made = create({"model": MULTILINGUAL_MODEL, "base_url": ENDPOINT, "dimensions": dimensions})
    assert find_multilingual_embedder(made) is None
    await made.close()


async def test_multilingual_model_on_the_machine_is_found() -> None:
    made = create()
    found = find_multilingual_embedder(made)
    assert found is not None
    assert found.identity.precision == "int8"
    await made.close()


async def test_document_warning_names_the_setting_if_the_default_is_an_endpoint() -> None:
    english = {"provider": "embedded", "model": "all-MiniLM-L6-v2"}
    made = create(
        english, CARREL_EMBEDDING_BASE_URL=ENDPOINT, CARREL_EMBEDDING_DIMENSIONS=8, CARREL_EMBEDDING_MODEL="m"
    )
    warning = build_document_warning(GERMAN, made.additional[0].identity, made)
    assert warning is not None
    assert f"add the local model '{MULTILINGUAL_MODEL}' to CARREL_EMBEDDING_MODELS and restart" in warning.message
    await made.close()
