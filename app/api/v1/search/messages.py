"""Messages of a conversation, as chat clients keep them."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from app.api.http.request_models import STORABLE, RequestModel, Text

ROLES = ("customer", "agent", "tool", "user", "assistant", "system")
# How chat clients call parts that are text.
TEXT_PART_TYPES = ("text", "input_text", "output_text")


def extract_texts(content: Any) -> list[str | None]:
    """What each part of a message's ``content`` says: a string is the only one; None for what is not understood."""
    if isinstance(content, list):
        return [_extract_text(part) for part in content]
    return [] if content is None else [content if isinstance(content, str) else None]


def join_texts(content: Any) -> Any:
    """The texts of all parts, a line each; what is not understood throughout comes back as it is."""
    texts = extract_texts(content)
    return content if None in texts else "\n".join(text for text in texts if text)


def _extract_text(part: Any) -> str | None:
    """None for what is no part; one of another type than text, as a picture, says nothing."""
    text = part.get("text") if isinstance(part, dict) else part
    if isinstance(text, str):
        return text
    kind = part.get("type") if isinstance(part, dict) else None
    return "" if isinstance(kind, str) and text is None and kind not in TEXT_PART_TYPES else None


class ContentPart(BaseModel):
    """A part of a message; one without a text, as a picture, counts as none."""

    type: str
    text: str | None = None


class MessageRequest(RequestModel):
    """One turn of a conversation; what else it has, as tool calls, is ignored."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[str, StringConstraints(pattern=f"^({'|'.join(ROLES)})$"), STORABLE]
    content: Annotated[Text, BeforeValidator(join_texts, json_schema_input_type=str | list[ContentPart] | None)]
