"""Inputs of requests to an OpenAI-compatible embedding endpoint: texts, or images in one of two formats."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from openai import omit

from app.inference.embedding import ImageFile
from app.inference.embedding.token_estimate import estimate_tokens

MARK_TOKENS = 8
# Estimated tokens of an image: patches of 28 by 28 pixels of the largest image that ingestion creates (1568 by 1568
# pixels). Models such as Qwen count patches as tokens. Models that count otherwise report the number of tokens in the
# reply.
IMAGE_TOKENS = 56 * 56
MAX_IMAGE_TOKENS = 100_000

ImageInputFormat = Literal["input", "messages"]
"""``input``: a list of ``{"image": base64}``, for Jina and SGLang. ``messages``: a chat message per image, for vLLM."""


class EmbeddingInputs(Protocol):
    """Protocol of the inputs of one call."""

    def estimate_token_counts(self) -> list[int]:
        """Return an upper estimate of the tokens of each input."""

    def build_body(self, start: int, end: int) -> dict[str, Any]:
        """Return the arguments of a request for a span of the inputs."""

    def compute_max_tokens(self, start: int, end: int) -> int:
        """Return an upper bound of the tokens of a span."""


@dataclass(frozen=True, slots=True)
class TextInputs:
    """Texts with their prefixes."""

    texts: Sequence[str]

    def estimate_token_counts(self) -> list[int]:
        """Estimate tokens from bytes."""
        return [estimate_tokens(text) for text in self.texts]

    def build_body(self, start: int, end: int) -> dict[str, Any]:
        """Return the body in OpenAI's format."""
        return {"input": list(self.texts[start:end])}

    def compute_max_tokens(self, start: int, end: int) -> int:
        """Return an upper bound: one token for each byte, and eight special tokens for each text."""
        return sum(len(text.encode()) + MARK_TOKENS for text in self.texts[start:end])


@dataclass(frozen=True, slots=True)
class ImageInputs:
    """Images of one call. In the format ``messages``, each request contains one image."""

    images: Sequence[ImageFile]
    image_format: ImageInputFormat

    def estimate_token_counts(self) -> list[int]:
        """Return the same estimate for each image: the cost depends more on the model than on the image."""
        return [IMAGE_TOKENS] * len(self.images)

    def build_body(self, start: int, end: int) -> dict[str, Any]:
        """Encode images only when they are sent, so that not all images of a call are in memory twice."""
        encoded = [base64.b64encode(image.data).decode("ascii") for image in self.images[start:end]]
        if self.image_format == "input":
            return {"input": [{"image": data} for data in encoded]}
        url = f"data:{self.images[start].media_type};base64,{encoded[0]}"
        message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
        return {"input": omit, "extra_body": {"messages": [message]}}

    def compute_max_tokens(self, start: int, end: int) -> int:
        """Return an upper bound far above the number of tokens that any model counts."""
        return MAX_IMAGE_TOKENS * (end - start)
