"""Settings of answers: how long the chat model is waited for, how much it may write, and what is said without it."""

from app.settings.group import Group, env


class AnswerSettings(Group):
    """``CARREL_CHAT_TIMEOUT_SECONDS`` limits the whole."""

    first_token_seconds: float = env("ANSWER_FIRST_TOKEN_SECONDS", 20.0, gt=0, le=600)
    citation_seconds: float = env("ANSWER_CITATION_SECONDS", 10.0, gt=0, le=600)
    digest_seconds: float = env("ANSWER_DIGEST_SECONDS", 20.0, gt=0, le=600)
    max_tokens: int = env("ANSWER_MAX_TOKENS", 1000, ge=16, le=32_000)
    abstention: str = env("ANSWER_ABSTENTION", "I found nothing about that in the documents.", max_length=500)
