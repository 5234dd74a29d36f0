"""Format of Jina's ``POST /v1/rerank``: like Cohere's format, but a request must ask for replies without texts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.inference.rerank import cohere
from app.inference.rerank.dialect import RerankRequest


def build_body(request: RerankRequest) -> Mapping[str, Any]:
    """Build a body that requests scores without documents."""
    return {**cohere.build_body(request), "return_documents": False}


JINA = replace(cohere.COHERE, build_body=build_body)
