"""Format of vLLM's ``POST /rerank``: like Cohere's format, but a request must ask for the truncation of long texts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.inference.rerank import cohere
from app.inference.rerank.dialect import RerankRequest


def build_body(request: RerankRequest) -> Mapping[str, Any]:
    """Build the body of a request that truncates texts to the model's maximum length (-1)."""
    return {**cohere.build_body(request), "truncate_prompt_tokens": -1}


VLLM = replace(cohere.COHERE, build_body=build_body)
