"""Hugging Face's Text Embeddings Inference: ``POST /rerank``; one model, and its own limit of 32 texts."""

from collections.abc import Mapping
from typing import Any

from app.inference.rerank.wire import Asked, Wire


def body(asked: Asked) -> Mapping[str, Any]:
    """Without ``truncate`` one text that is too long for the model would have all of them refused."""
    return {"query": asked.query, "texts": asked.texts, "truncate": True, "raw_scores": False, "return_text": False}


TEI = Wire(body, results=None, score="score", most_documents=32)
