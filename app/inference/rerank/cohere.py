"""Cohere's ``POST /v2/rerank``, which many others speak too: LiteLLM, Infinity, llama.cpp."""

from collections.abc import Mapping
from typing import Any

from app.inference.rerank.wire import Asked, Wire


def body(asked: Asked) -> Mapping[str, Any]:
    """What all of its kind know, and nothing else: some refuse fields that they do not."""
    model = {"model": asked.model} if asked.model else {}
    return {**model, "query": asked.query, "documents": asked.texts, "top_n": asked.top_n}


COHERE = Wire(body, results="results", score="relevance_score", most_documents=1000)
