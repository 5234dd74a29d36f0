"""Messages of a conversation, as chat clients keep them."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from app.api.bodies import STORABLE, Body, Text

ROLES = ("customer", "agent", "tool", "user", "assistant", "system")
# How chat clients call parts that are text.
TEXT_PARTS = ("text", "input_text", "output_text")


def texts_of(content: Any) -> list[str | None]:
    """What each part of a message's ``content`` says: a string is the only one; None for what is not understood."""
    if isinstance(content, list):
        return [_text_of(part) for part in content]
    return [] if content is None else [content if isinstance(content, str) else None]


def words_of(content: Any) -> Any:
    """The texts of all parts, a line each; what is not understood throughout comes back as it is."""
    said = texts_of(content)
    return content if None in said else "\n".join(one for one in said if one)


def _text_of(part: Any) -> str | None:
    """None for what is no part; one of another type than text, as a picture, says nothing."""
    text = part.get("text") if isinstance(part, dict) else part
    if isinstance(text, str):
        return text
    kind = part.get("type") if isinstance(part, dict) else None
    return "" if isinstance(kind, str) and text is None and kind not in TEXT_PARTS else None


class Part(BaseModel):
    """A part of a message; one without a text, as a picture, counts as none."""

    type: str
    text: str | None = None


class MessageIn(Body):
    """One turn of a conversation; what else it has, as tool calls, is ignored."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[str, StringConstraints(pattern=f"^({'|'.join(ROLES)})$"), STORABLE]
    content: Annotated[Text, BeforeValidator(words_of, json_schema_input_type=str | list[Part] | None)]
