"""vLLM's ``POST /rerank``: as Cohere's, but it refuses what is too long for the model unless it is told to cut it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.inference.rerank import cohere
from app.inference.rerank.dialect import RerankRequest


def build_body(request: RerankRequest) -> Mapping[str, Any]:
    """-1 stands for the longest that the model reads."""
    return {**cohere.build_body(request), "truncate_prompt_tokens": -1}


VLLM = replace(cohere.COHERE, build_body=build_body)
