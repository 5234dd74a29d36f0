"""Types and texts of ``Knowledge``, which gives an agent passages of knowledge bases."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

from carrel_client.errors import CarrelError
from carrel_client.types import KnowledgeBase, Message, Result

Mode = Literal["static", "agentic", "both"]
ChatMessage = Mapping[str, Any]
"""Message of a conversation, as the OpenAI API has it."""

TOOL_NAME = "search_knowledge"
HINT_NAME = "carrel_knowledge"
"""Field ``name`` of the message that contains the passages of a turn."""

SEPARATOR = "\n\n---\n\n"
DEFAULT_HINT_TEMPLATE = (
    "Answer from these passages of the knowledge bases. If they do not contain the answer, say so.\n\n{context}"
)
MAX_TOP_K = 50
MAX_DESCRIBED_KNOWLEDGE_BASES = 50
MAX_DESCRIPTION_CHARACTERS = 300
_ROLES = {"developer": "system", "function": "tool"}
_TURN_ROLES = frozenset({"user", "customer", "assistant", "agent", "tool"})


class HintEvent(TypedDict):
    """Event of a turn, for an interface that displays the passages that the model received."""

    type: Literal["hint"]
    content: str
    results: list[Result]


@dataclass(frozen=True, slots=True)
class PreparedTurn:
    """Messages for the model, and what a search has added to them.

    Attributes:
        messages: The conversation with the message of passages, if there is one.
        results: Results of the search, best first.
        events: Events for an interface; empty if ``emit_hint_event`` is false or nothing was found.
        error: Error of a failed search, None if it succeeded. The messages then have no passages.
    """

    messages: list[ChatMessage]
    results: list[Result]
    events: list[HintEvent]
    error: CarrelError | None = None


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Result of a tool call.

    Attributes:
        content: Text for the model: the passages, or what is wrong with the call.
        results: Results of the search, for an interface that displays sources.
        error: Error of a failed search, None if it succeeded.
    """

    content: str
    results: list[Result]
    error: CarrelError | None = None


@dataclass(frozen=True, slots=True)
class KnowledgeToolArguments:
    """Arguments of a call of ``search_knowledge``."""

    query: str
    knowledge_bases: list[str] | None
    top_k: int


def check_settings(mode: str, top_k: int, hint_template: str) -> None:
    """Check the settings of ``Knowledge``.

    Raises:
        ValueError: A setting is invalid.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"Unknown mode {mode!r}. Use one of {', '.join(get_args(Mode))}.")
    if not 1 <= top_k <= MAX_TOP_K:
        raise ValueError(f"top_k must be from 1 to {MAX_TOP_K}.")
    if "{context}" not in hint_template:
        raise ValueError("hint_template must contain {context}.")


def join_snippets(results: Iterable[Result], *, citations: bool) -> str:
    """Return the texts of results, separated by ``---`` between blank lines.

    Args:
        results: Results of a search.
        citations: Whether each text begins with its citation.
    """
    return SEPARATOR.join(f"[{item['citation']}] {item['text']}" if citations else item["text"] for item in results)


def build_hint(content: str, template: str) -> dict[str, str]:
    """Return the message that contains the passages of a turn."""
    return {"role": "system", "name": HINT_NAME, "content": template.replace("{context}", content)}


def is_hint(message: ChatMessage) -> bool:
    """Return whether a message contains the passages of a turn."""
    return message.get("role") == "system" and message.get("name") == HINT_NAME


def to_service_messages(messages: Iterable[ChatMessage]) -> list[Message]:
    """Return the messages of a conversation as the service reads them.

    Earlier passages count as results of a tool, so that a search does not return them again. Other system messages,
    messages without text, and images are left out.
    """
    result: list[Message] = []
    for message in messages:
        role = "tool" if is_hint(message) else _ROLES.get(str(message.get("role")), str(message.get("role")))
        text = _read_text(message.get("content")).encode(errors="replace").decode()
        if role in _TURN_ROLES and text.strip():
            result.append({"role": role, "content": text})
    return result


def insert_hint(messages: Sequence[ChatMessage], hint: ChatMessage) -> list[ChatMessage]:
    """Return the messages with the hint before the last message of a user."""
    position = next(
        (n for n in range(len(messages) - 1, -1, -1) if messages[n].get("role") in ("user", "customer")), len(messages)
    )
    return [*messages[:position], hint, *messages[position:]]


def build_tool(knowledge_bases: Sequence[KnowledgeBase], top_k: int) -> dict[str, Any]:
    """Return the definition of the tool ``search_knowledge`` for a chat model.

    Args:
        knowledge_bases: Knowledge bases that the model may name. The description lists them.
        top_k: Maximum number of passages of a call.
    """
    names = [item["name"] for item in knowledge_bases]
    lines = [_describe(item) for item in knowledge_bases[:MAX_DESCRIBED_KNOWLEDGE_BASES]]
    if len(names) > MAX_DESCRIBED_KNOWLEDGE_BASES:
        lines.append(f"- and {len(names) - MAX_DESCRIBED_KNOWLEDGE_BASES} more")
    properties: dict[str, Any] = {
        "query": {"type": "string", "description": "A question that is complete without the conversation."},
        "top_k": {"type": "integer", "minimum": 1, "maximum": top_k, "description": "Maximum number of passages."},
    }
    if names:
        properties["knowledge_bases"] = {
            "type": "array",
            "items": {"type": "string", "enum": names},
            "description": "Names of the knowledge bases to search. Without it, all of them are searched.",
        }
    description = "\n".join(["Search knowledge bases and return the passages that answer a question.", *lines])
    parameters = {"type": "object", "properties": properties, "required": ["query"], "additionalProperties": False}
    function = {"name": TOOL_NAME, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def parse_arguments(arguments: str | Mapping[str, Any], names: Sequence[str], top_k: int) -> KnowledgeToolArguments:
    """Parse the arguments of a tool call.

    Args:
        arguments: Arguments as a JSON text or as an object.
        names: Names of the knowledge bases that the call may name.
        top_k: Maximum number of passages. A larger number of the call is reduced to it.

    Raises:
        ValueError: The arguments are invalid. The message says what is wrong.
    """
    try:
        provided = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        raise ValueError("The arguments are no JSON object.") from None
    if not isinstance(provided, Mapping):
        raise ValueError("The arguments are no JSON object.")  # noqa: TRY004  (callers catch one class)
    query, requested, count = provided.get("query"), provided.get("knowledge_bases"), provided.get("top_k")
    if not isinstance(query, str) or not query.strip():
        raise ValueError("The argument query must be a question.")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ValueError("The argument top_k must be a positive integer.")
    if requested is not None and not (isinstance(requested, list) and all(isinstance(name, str) for name in requested)):
        raise ValueError("The argument knowledge_bases must be a list of names.")
    unknown = [name for name in requested or () if name not in names]
    if unknown:
        raise ValueError(f"Unknown knowledge bases: {', '.join(unknown)}. Use some of {', '.join(names)}.")
    return KnowledgeToolArguments(query, requested or None, min(count or top_k, top_k))


def _describe(knowledge_base: KnowledgeBase) -> str:
    title = knowledge_base["title"] if knowledge_base["title"] != knowledge_base["name"] else None
    parts = [" ".join(part.split()) for part in (title, knowledge_base["description"]) if part]
    description = ". ".join(parts)[:MAX_DESCRIPTION_CHARACTERS]
    return f"- {knowledge_base['name']}: {description}" if description else f"- {knowledge_base['name']}"


def _read_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
