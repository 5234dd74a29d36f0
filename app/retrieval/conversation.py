"""Queries from a conversation, without a chat model."""

from collections.abc import Sequence

from app.knowledge_bases.types import Retrieval
from app.retrieval.types import Message, SearchRequest

MAX_MESSAGES = 20
MAX_QUERY_CHARACTERS = 8000
REFORMULATE = "reformulate"
ASKING_ROLES = frozenset({"customer", "user"})


def is_conversation_used(request: SearchRequest, settings: Retrieval) -> bool:
    """Return whether a search uses the messages before the last question.

    The request takes precedence, then the agent of the request, then the knowledge base.

    Args:
        request: The search request. Its transformers use the conversation if they include the reformulation.
        settings: Stored settings of the knowledge base.
    """
    named = {item if isinstance(item, str) else item[0] for item in request.transformers or ()}
    requested = True if request.conversation is None and REFORMULATE in named else request.conversation
    choices = (requested, request.stored_conversation, settings.conversation)
    return next(choice for choice in choices if choice is not None)


def build_conversation_queries(messages: Sequence[Message]) -> list[str]:
    """Build the queries of a conversation from the messages of its users and customers.

    Messages of agents and tools never become queries. On the benchmark mtrag-un, fusing the results of both queries
    beat the last message alone. One query of all messages was worse.

    Args:
        messages: Messages of the conversation, oldest first.

    Returns:
        The last question, and the last question with up to two earlier messages before it. Without a question, the list
        is empty; without earlier messages, it has one query.
    """
    positions = list_newest_positions([*map(is_question, messages)])
    turns = [messages[position].content.strip() for position in positions if is_question(messages[position])]
    if not turns:
        return []
    last = turns[-1]
    context = turns[-3:-1]
    return (
        [truncate_query(last)] if not context else [truncate_query(last), truncate_query("\n".join([*context, last]))]
    )


def list_newest_positions(is_question: Sequence[bool], max_messages: int = MAX_MESSAGES) -> list[int]:
    """List the positions of the newest messages of a conversation.

    Many messages of tools may follow a question. If none of the newest is a question, the newest older question takes
    the place of the oldest of them.

    Args:
        is_question: For each message, oldest first, whether it is a question.
        max_messages: Maximum number of positions, at least 1.

    Returns:
        The positions, in the order of the messages.
    """
    count = len(is_question)
    first = max(0, count - max_messages)
    newest = range(first, count)
    if first == 0 or any(is_question[position] for position in newest):
        return [*newest]
    older = next((position for position in range(first - 1, -1, -1) if is_question[position]), None)
    return [*newest] if older is None else [older, *newest[1:]]


def is_question(message: Message) -> bool:
    """Return whether a message asks: its author is a user or a customer, and it has a text."""
    return message.role in ASKING_ROLES and bool(message.content.strip())


def truncate_query(query: str) -> str:
    """Truncate a query to its last characters, because the question is usually at the end."""
    return query[-MAX_QUERY_CHARACTERS:]
