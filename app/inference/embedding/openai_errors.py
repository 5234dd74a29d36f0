"""A refusal of an OpenAI-compatible embedding endpoint, in our own words: the server's may repeat the text."""

import re
from collections.abc import Callable

from openai import APIStatusError

from app.inference.embedding import EmbeddingRejected

CODE = re.compile(r"[A-Za-z0-9_.-]{1,40}")


def rejected(error: APIStatusError, name_of: Callable[[str], str], **fields: int) -> EmbeddingRejected:
    """A refusal, with the setting to look at, by its name."""
    code = f", {error.code}" if error.code and CODE.fullmatch(error.code) else ""
    hint = {
        401: f"check {name_of('api_key')}",
        403: f"check {name_of('api_key')}, and what that key may do",
        404: f"check {name_of('base_url')} and {name_of('model')}",
    }.get(error.status_code, "it does not take this input or these settings")
    return EmbeddingRejected(f"The embedding endpoint refuses (HTTP {error.status_code}{code}): {hint}.", **fields)
