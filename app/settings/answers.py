"""Settings of answers: timeouts of the chat model, the length of answers, and the text of an abstention."""

from app.settings.settings_group import SettingsGroup, env_field


class AnswerSettings(SettingsGroup):
    """Answers: length, and time limits of single steps. ``CARREL_CHAT_TIMEOUT_SECONDS`` limits the steps together."""

    first_token_timeout_seconds: float = env_field(
        "ANSWER_FIRST_TOKEN_TIMEOUT_SECONDS",
        20.0,
        gt=0,
        le=600,
        unit="seconds",
        description="Maximum time until the chat model sends the first token of an answer.",
        read_by="API",
    )
    citation_timeout_seconds: float = env_field(
        "ANSWER_CITATION_TIMEOUT_SECONDS",
        10.0,
        gt=0,
        le=600,
        unit="seconds",
        description="Maximum time for the chat model to name the sources of a finished answer. After that time the "
        "citations come from the words that the answer shares with its sources.",
        read_by="API",
    )
    compression_timeout_seconds: float = env_field(
        "ANSWER_COMPRESSION_TIMEOUT_SECONDS",
        20.0,
        gt=0,
        le=600,
        unit="seconds",
        description="Maximum time for the chat model to compress all sources of an answer, if a request asks for "
        "compression.",
        read_by="API",
    )
    max_tokens: int = env_field(
        "ANSWER_MAX_TOKENS",
        1000,
        ge=16,
        le=32_000,
        unit="tokens",
        description="Maximum length of an answer.",
        read_by="API",
    )
    abstention: str = env_field(
        "ANSWER_ABSTENTION",
        "I found nothing about that in the documents.",
        max_length=500,
        unit="characters",
        description="Answer that is returned, without a call of the chat model, if the search finds nothing relevant.",
        read_by="API",
    )
