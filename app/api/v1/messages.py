"""Messages of a conversation, as chat clients keep them."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from app.api.bodies import STORABLE, Body, Text

ROLES = ("customer", "agent", "tool", "user", "assistant", "system")


def words_of(content: Any) -> Any:
    """What ``content`` says in words: of a list of parts their texts, a line each; none is no words."""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join(part for part in parts if isinstance(part, str))
    return "" if content is None else content


class Part(BaseModel):
    """A part of a message; one without a text, as a picture, counts as none."""

    type: str
    text: str | None = None


class MessageIn(Body):
    """One turn of a conversation; what else it has, as tool calls, is ignored."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[str, StringConstraints(pattern=f"^({'|'.join(ROLES)})$"), STORABLE]
    content: Annotated[Text, BeforeValidator(words_of, json_schema_input_type=str | list[Part] | None)]
