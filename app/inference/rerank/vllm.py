"""vLLM's ``POST /rerank``: like Cohere's, but it refuses too long texts unless the request asks to truncate them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.inference.rerank import cohere
from app.inference.rerank.dialect import RerankRequest


def build_body(request: RerankRequest) -> Mapping[str, Any]:
    """Build the body; -1 means the maximum length of the model."""
    return {**cohere.build_body(request), "truncate_prompt_tokens": -1}


VLLM = replace(cohere.COHERE, build_body=build_body)
