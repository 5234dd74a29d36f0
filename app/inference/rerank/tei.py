"""Format of ``POST /rerank`` of Hugging Face's Text Embeddings Inference (TEI): one model, 32 texts per request."""

from collections.abc import Mapping
from typing import Any

from app.inference.rerank.dialect import RerankDialect, RerankRequest


def build_body(request: RerankRequest) -> Mapping[str, Any]:
    """Build the body with ``truncate``: otherwise one text that is too long makes TEI refuse all texts."""
    return {"query": request.query, "texts": request.texts, "truncate": True, "raw_scores": False, "return_text": False}


TEI = RerankDialect(build_body, results_field=None, score_field="score", max_documents=32)
