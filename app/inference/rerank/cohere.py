"""Cohere's ``POST /v2/rerank``, which many others speak too: LiteLLM, Infinity, llama.cpp."""

from collections.abc import Mapping
from typing import Any

from app.inference.rerank.dialect import RerankDialect, RerankRequest


def build_body(request: RerankRequest) -> Mapping[str, Any]:
    """What all of its kind know, and nothing else: some refuse fields that they do not."""
    model = {"model": request.model} if request.model else {}
    return {**model, "query": request.query, "documents": request.texts, "top_n": request.top_n}


COHERE = RerankDialect(build_body, results_field="results", score_field="relevance_score", max_documents=1000)
