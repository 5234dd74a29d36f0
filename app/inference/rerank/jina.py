"""Jina's ``POST /v1/rerank``: as Cohere's, but it sends the documents back unless it is told not to."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.inference.rerank import cohere
from app.inference.rerank.wire import Asked


def body(asked: Asked) -> Mapping[str, Any]:
    """Only what is wanted comes back."""
    return {**cohere.body(asked), "return_documents": False}


JINA = replace(cohere.COHERE, body=body)
