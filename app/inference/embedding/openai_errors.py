"""A refusal of an OpenAI-compatible embedding endpoint, in our own words: the server's may repeat the text."""

import re

from openai import APIStatusError

from app.inference.embedding import EmbeddingRejected

CODE = re.compile(r"[A-Za-z0-9_.-]{1,40}")


def rejected(error: APIStatusError, **fields: int) -> EmbeddingRejected:
    """A refusal, with the setting to look at."""
    code = f", {error.code}" if error.code and CODE.fullmatch(error.code) else ""
    hint = {
        401: "check CARREL_EMBEDDING_API_KEY",
        403: "check what CARREL_EMBEDDING_API_KEY may do",
        404: "check CARREL_EMBEDDING_BASE_URL and CARREL_EMBEDDING_MODEL",
    }.get(error.status_code, "it does not take this input or these settings")
    return EmbeddingRejected(f"The embedding endpoint refuses (HTTP {error.status_code}{code}): {hint}.", **fields)
