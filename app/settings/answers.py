"""Settings of answers: timeouts of the chat model, the length of answers, and the text of an abstention."""

from app.settings.settings_group import SettingsGroup, env_field


class AnswerSettings(SettingsGroup):
    """Timeouts of the steps of an answer; ``CARREL_CHAT_TIMEOUT_SECONDS`` limits the whole answer."""

    first_token_timeout_seconds: float = env_field("ANSWER_FIRST_TOKEN_TIMEOUT_SECONDS", 20.0, gt=0, le=600)
    citation_timeout_seconds: float = env_field("ANSWER_CITATION_TIMEOUT_SECONDS", 10.0, gt=0, le=600)
    compression_timeout_seconds: float = env_field("ANSWER_COMPRESSION_TIMEOUT_SECONDS", 20.0, gt=0, le=600)
    max_tokens: int = env_field("ANSWER_MAX_TOKENS", 1000, ge=16, le=32_000)
    abstention: str = env_field("ANSWER_ABSTENTION", "I found nothing about that in the documents.", max_length=500)
