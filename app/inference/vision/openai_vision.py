"""Vision model behind an OpenAI-compatible endpoint: retries are limited, and replies are checked."""

import asyncio
import base64
import random
from typing import Any

from openai import APIError, APIStatusError

from app.inference.circuit_breaker import EndpointFailed
from app.inference.openai_client import build_headers, create_openai_client, is_refusal, to_endpoint_failure
from app.inference.vision import PROMPT, ImageDescription, VisionRejected, VisionUnavailable

TIMEOUT_SECONDS = 60.0
MAX_ATTEMPTS = 3
FIRST_DELAY_SECONDS = 0.5
# If the endpoint requests a longer pause, the call fails, and a later attempt of the whole document calls it again.
MAX_DELAY_SECONDS = 30.0
MAX_CHARACTERS = 2000


class OpenAIVision:
    """Vision model that calls ``POST {base_url}/chat/completions``."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        first_delay_seconds: float = FIRST_DELAY_SECONDS,
    ) -> None:
        self._headers = build_headers(api_key)
        self._client = create_openai_client(base_url, api_key, timeout_seconds=timeout_seconds)
        self._model = model
        self._first_delay_seconds = first_delay_seconds

    @property
    def name(self) -> str:
        """Configured name of the model."""
        return self._model

    async def describe(self, data: bytes, media_type: str, *, language: str) -> ImageDescription:
        """Describe an image with up to three attempts. Raises VisionUnavailable, VisionRejected."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                return _parse_response(await self._send_request(data, media_type, language))
            except EndpointFailed as exc:
                delay = exc.retry_after or self._first_delay_seconds * 2.0 ** (attempt - 1)
                if attempt == MAX_ATTEMPTS or delay > MAX_DELAY_SECONDS:
                    message = f"The vision model failed: {exc}."
                    raise VisionUnavailable(message, retry_after=max(2.0, exc.retry_after or 0.0)) from exc
            await asyncio.sleep(delay * random.uniform(1.0, 1.1))  # noqa: S311  no secret
        raise AssertionError("the last attempt returns or raises")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _send_request(self, data: bytes, media_type: str, language: str) -> Any:
        """Return the decoded reply. Raises EndpointFailed, VisionRejected."""
        image_url = f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
        try:
            reply = await self._client.chat.completions.with_raw_response.create(
                model=self._model,
                messages=[
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": PROMPT.format(language=language)},
                            {"type": "image_url", "image_url": {"url": image_url}},
                        ],
                    }
                ],
                extra_headers=self._headers,
            )
            return reply.http_response.json()
        except APIError as exc:
            if is_refusal(exc):
                raise _create_rejection(exc) from exc
            raise to_endpoint_failure(exc) from exc
        except (ValueError, RecursionError) as exc:
            raise EndpointFailed("the answer is not JSON") from exc


def _create_rejection(error: APIError) -> VisionRejected:
    status = error.status_code if isinstance(error, APIStatusError) else 0
    hint = {
        401: "check CARREL_CHAT_API_KEY",
        403: "check what CARREL_CHAT_API_KEY may do",
        404: "check CARREL_CHAT_BASE_URL and CARREL_VISION_MODEL",
    }.get(status, "it does not take this image")
    return VisionRejected(f"The vision model refuses (HTTP {status}): {hint}.")


def _parse_response(payload: Any) -> ImageDescription:
    """Parse and check a reply. Raises EndpointFailed, VisionRejected."""
    try:
        message = payload["choices"][0]["message"]
        text, refusal = message.get("content"), message.get("refusal")
    except (TypeError, LookupError, AttributeError) as exc:
        raise EndpointFailed("the answer has an unknown format") from exc
    if refusal:
        raise VisionRejected
    if not isinstance(text, str):
        raise EndpointFailed("the answer has an unknown format")
    usage = payload.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return ImageDescription(text[:MAX_CHARACTERS], tokens if type(tokens) is int and 0 < tokens < 1_000_000 else 0)
