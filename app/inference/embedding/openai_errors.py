"""Errors for refusals of an OpenAI-compatible embedding endpoint. They never quote the reply: it may repeat a text."""

import re
from collections.abc import Callable

from openai import APIStatusError

from app.inference.embedding import EmbeddingRejected

CODE_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,40}")


def create_rejection(
    error: APIStatusError, format_setting_name: Callable[[str], str], **fields: int
) -> EmbeddingRejected:
    """Create the error of a refusal, with the name of the setting to check.

    Args:
        error: Response of the endpoint.
        format_setting_name: Returns the name of the environment variable of a settings field.
        fields: Further fields of the error, such as the index of the refused text.
    """
    code = f", {error.code}" if error.code and CODE_PATTERN.fullmatch(error.code) else ""
    hint = {
        401: f"check {format_setting_name('api_key')}",
        403: f"check {format_setting_name('api_key')}, and what that key may do",
        404: f"check {format_setting_name('base_url')} and {format_setting_name('model')}",
    }.get(error.status_code, "it does not take this input or these settings")
    return EmbeddingRejected(f"The embedding endpoint refuses (HTTP {error.status_code}{code}): {hint}.", **fields)
