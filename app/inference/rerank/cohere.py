"""Format of Cohere's ``POST /v2/rerank``, which other servers also use: LiteLLM, Infinity, llama.cpp."""

from collections.abc import Mapping
from typing import Any

from app.inference.rerank.dialect import RerankDialect, RerankRequest


def build_body(request: RerankRequest) -> Mapping[str, Any]:
    """Build a body with only the fields that all Cohere-like endpoints accept, because some refuse other fields."""
    model = {"model": request.model} if request.model else {}
    return {**model, "query": request.query, "documents": request.texts, "top_n": request.top_n}


COHERE = RerankDialect(build_body, results_field="results", score_field="relevance_score", max_documents=1000)
