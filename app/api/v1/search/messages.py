"""Messages of a conversation, in the formats that chat clients store."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from app.api.http.request_models import STORABLE, RequestModel, Text

ROLES = ("customer", "agent", "tool", "user", "assistant", "system")
# Types of text parts in the formats of chat clients.
TEXT_PART_TYPES = ("text", "input_text", "output_text")


def extract_texts(content: Any) -> list[str | None]:
    """Return the text of each part of a message's ``content``.

    Args:
        content: String, list of parts, or None.

    Returns:
        One entry per part. A string counts as one part. The entry is None for a part that is not understood.
    """
    if isinstance(content, list):
        return [_extract_text(part) for part in content]
    return [] if content is None else [content if isinstance(content, str) else None]


def join_texts(content: Any) -> Any:
    """Return the texts of all parts, one per line. If a part is not understood, return ``content`` unchanged."""
    texts = extract_texts(content)
    return content if None in texts else "\n".join(text for text in texts if text)


def _extract_text(part: Any) -> str | None:
    """Return the text of a part: empty for a part of another type, such as an image; None if it is no part."""
    text = part.get("text") if isinstance(part, dict) else part
    if isinstance(text, str):
        return text
    kind = part.get("type") if isinstance(part, dict) else None
    return "" if isinstance(kind, str) and text is None and kind not in TEXT_PART_TYPES else None


class ContentPart(BaseModel):
    """Part of a message. A part without text, such as an image, is ignored."""

    type: str = Field(
        description="Type of the part: `text`, `input_text` or `output_text` for text.", examples=["text"]
    )
    text: str | None = Field(
        None, description="Text of the part; null for a part of another type.", examples=["And for twins?"]
    )


class MessageRequest(RequestModel):
    """Message of a conversation. Other fields, such as tool calls, are ignored."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[str, StringConstraints(pattern=f"^({'|'.join(ROLES)})$"), STORABLE] = Field(
        description="Author of the message: `customer`, `agent`, `tool`, `user`, `assistant` or `system`.",
        examples=["user"],
    )
    content: Annotated[Text, BeforeValidator(join_texts, json_schema_input_type=str | list[ContentPart] | None)] = (
        Field(
            description="Text of the message, or a list of parts. Null counts as an empty text.",
            examples=["And for twins?"],
        )
    )
