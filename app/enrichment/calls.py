"""One call of the chat model about a section, with one repair of an invalid reply."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from app.enrichment.prompt import build_messages, build_repair_messages
from app.enrichment.reply import build_shape, build_shape_instruction, check_reply
from app.enrichment.tokens import estimate_output, estimate_tokens, limit_output
from app.enrichment.types import SectionReply
from app.inference.chat import ChatMessage, ChatModel, ChatTokens, ChatUnavailable

MAX_ATTEMPTS = 2
"""Number of calls about a section: the first one, and one after an invalid reply."""


class CallFailed(Exception):
    """The chat model gives no reply about a section.

    Attributes:
        is_refused: Whether the model refuses this request, so that a retry does not help.
        retry_after: Minimum seconds until another attempt.
        calls: Number of calls that cost tokens.
        tokens: Tokens that they cost.
    """

    def __init__(self, *, is_refused: bool, retry_after: float, calls: int, tokens: int) -> None:
        self.is_refused = is_refused
        self.retry_after = retry_after
        self.calls = calls
        self.tokens = tokens
        super().__init__()


@dataclass(frozen=True, slots=True)
class CallResult:
    """Checked reply, with the number of calls and tokens that it cost."""

    reply: SectionReply
    calls: int
    tokens: int


async def call_model(
    model: ChatModel,
    prompt: tuple[str, str],
    text: str,
    parts: Sequence[str],
    *,
    passages: Sequence[tuple[int, int]] = (),
    attempts: int = MAX_ATTEMPTS,
    timeout_seconds: float,
) -> CallResult:
    """Call the chat model about a section. After an invalid reply it is called once more.

    Args:
        model: The chat model.
        prompt: Instruction and material of the call.
        text: Text that names and evidence must be in.
        parts: Wanted parts.
        passages: Ranges of the text that context lines are wanted for.
        attempts: Maximum number of calls.
        timeout_seconds: Time for each call.

    Returns:
        The reply; without a valid reply it is marked as skipped.

    Raises:
        CallFailed: The chat model refuses the request or does not answer.
    """
    shape, spent = build_shape(tuple(parts)), 0
    for number, messages in enumerate((build_messages(*prompt), build_repair_messages(*prompt))[:attempts], 1):
        try:
            answer = await model.complete_structured(
                messages, shape, max_tokens=limit_output(parts, len(passages)), timeout_seconds=timeout_seconds
            )
        except ChatUnavailable as exc:
            if exc.reason != "invalid_response":
                reported = exc.tokens.prompt + exc.tokens.completion
                calls = number - 1 + bool(reported)
                is_refused = exc.reason == "refused"
                raise CallFailed(
                    is_refused=is_refused, retry_after=exc.retry_after, calls=calls, tokens=spent + reported
                ) from exc
            spent += _count_tokens(exc.tokens, messages, parts, lines=len(passages))
        else:
            spent += _count_tokens(answer.tokens, messages, parts, answer.value)
            return CallResult(check_reply(answer.value, text, passages), number, spent)
    return CallResult(SectionReply(is_skipped=True), attempts, spent)


def _count_tokens(
    tokens: ChatTokens,
    messages: Sequence[ChatMessage],
    parts: Sequence[str],
    value: BaseModel | None = None,
    *,
    lines: int = 0,
) -> int:
    """Return the tokens that the endpoint reports, or an estimate if it reports none."""
    if reported := tokens.prompt + tokens.completion:
        return reported
    texts = (*(message.content for message in messages), build_shape_instruction(tuple(parts)))
    prompt = sum(map(estimate_tokens, texts))
    return prompt + (
        estimate_output(parts, prompt, lines) if value is None else estimate_tokens(value.model_dump_json())
    )
