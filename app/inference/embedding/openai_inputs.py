"""Inputs of requests to an OpenAI-compatible embedding endpoint: texts, or images in one of two formats."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from openai import omit

from app.inference.embedding import ImageFile
from app.inference.embedding.token_estimate import estimate_tokens

MARK_TOKENS = 8
# The largest image that ingestion makes, of 1568 pixels a side, in patches of 28: what models such as Qwen's count.
# Those that count less or several times more say so in their replies.
IMAGE_TOKENS = 56 * 56
MAX_IMAGE_TOKENS = 100_000

ImageInputFormat = Literal["input", "messages"]
"""``input: [{"image": base64}, …]`` as Jina and SGLang take it, or a chat message an image, as vLLM does."""


class EmbeddingInputs(Protocol):
    """The inputs of one call."""

    def estimate_token_counts(self) -> list[int]:
        """Return an upper estimate of the tokens of each input."""

    def build_body(self, start: int, end: int) -> dict[str, Any]:
        """Return the request's arguments that hold a span of the inputs."""

    def compute_max_tokens(self, start: int, end: int) -> int:
        """Return an upper bound of a span's cost."""


@dataclass(frozen=True, slots=True)
class TextInputs:
    """Texts, their prefixes with them."""

    texts: Sequence[str]

    def estimate_token_counts(self) -> list[int]:
        """Estimate tokens from bytes."""
        return [estimate_tokens(text) for text in self.texts]

    def build_body(self, start: int, end: int) -> dict[str, Any]:
        """Return the body in OpenAI's format."""
        return {"input": list(self.texts[start:end])}

    def compute_max_tokens(self, start: int, end: int) -> int:
        """Return an upper bound: a token a byte, and a few special tokens a text."""
        return sum(len(text.encode()) + MARK_TOKENS for text in self.texts[start:end])


@dataclass(frozen=True, slots=True)
class ImageInputs:
    """Images; in the form ``messages`` a span holds one."""

    images: Sequence[ImageFile]
    image_format: ImageInputFormat

    def estimate_token_counts(self) -> list[int]:
        """Return the same estimate for each image: the cost depends more on the model than on the image."""
        return [IMAGE_TOKENS] * len(self.images)

    def build_body(self, start: int, end: int) -> dict[str, Any]:
        """Encode images when they are sent, so that not all of a call's images are in memory twice."""
        encoded = [base64.b64encode(image.data).decode("ascii") for image in self.images[start:end]]
        if self.image_format == "input":
            return {"input": [{"image": data} for data in encoded]}
        url = f"data:{self.images[start].media_type};base64,{encoded[0]}"
        message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
        return {"input": omit, "extra_body": {"messages": [message]}}

    def compute_max_tokens(self, start: int, end: int) -> int:
        """Return an upper bound far above the count of any model."""
        return MAX_IMAGE_TOKENS * (end - start)
