"""From a conversation to the queries that are searched for (without a chat model)."""

from collections.abc import Sequence

from app.retrieval.types import Message

MAX_MESSAGES = 20
MAX_QUERY_CHARACTERS = 8000
ASKING_ROLES = frozenset({"customer", "user"})


def build_conversation_queries(messages: Sequence[Message]) -> list[str]:
    """The last question, and the same with the two turns of the asking side before it; none without a question.

    Only the asking side's words become a query, never an agent's or a tool's. On mtrag-un the two fused queries beat
    the last turn alone, and all turns together hurt.
    """
    turns = (
        _extract_turns(messages[-MAX_MESSAGES:]) or _extract_turns(messages)[-1:]
    )  # many tool messages may follow a question
    if not turns:
        return []
    last = turns[-1]
    context = turns[-3:-1]
    return (
        [truncate_query(last)] if not context else [truncate_query(last), truncate_query("\n".join([*context, last]))]
    )


def _extract_turns(messages: Sequence[Message]) -> list[str]:
    turns = [message.content.strip() for message in messages if message.role in ASKING_ROLES]
    return [turn for turn in turns if turn]


def truncate_query(query: str) -> str:
    """The end of an over-long query: what is asked stands last."""
    return query[-MAX_QUERY_CHARACTERS:]
