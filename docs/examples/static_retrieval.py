"""Retrieval before each turn of an agent.

The model reads the passages in a system message, and the history never contains them. ``search`` calls the
external-search contract with the standard library of Python.
"""

import json
import urllib.request
from collections.abc import Mapping, Sequence

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

SECONDS = 5.0
TOLD = "Answer from these passages where they help, and say so where they do not:\n\n"


class SearchFailed(Exception):
    """The search failed, so its result is unknown. An empty array means that nothing matched."""


def search(
    url: str,
    key: str,
    messages: Sequence[Mapping[str, str]],
    *,
    agent_id: str | None = None,
    session_id: str | None = None,
    top_k: int = 5,
) -> list[str]:
    """Return the passages for a conversation, best first.

    Raises:
        SearchFailed: The service did not return an array of texts within five seconds.
    """
    body = {"messages": list(messages), "agent_id": agent_id, "session_id": session_id, "top_k": top_k}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310  (the operator's own)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:  # noqa: S310
            found = json.load(reply)
    except (OSError, ValueError) as exc:  # no connection, timeout, error status or invalid JSON
        raise SearchFailed(str(exc)) from exc
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise SearchFailed("The response is not an array of texts.")
    return found


def with_passages(
    history: Sequence[ChatCompletionMessageParam], passages: Sequence[str]
) -> list[ChatCompletionMessageParam]:
    """Return a copy of the conversation with the passages before its last message."""
    if not passages:
        return list(history)
    told: ChatCompletionMessageParam = {"role": "system", "content": TOLD + "\n---\n".join(passages)}
    return [*history[:-1], told, history[-1]]


def turn(
    client: OpenAI,
    model: str,
    history: list[ChatCompletionMessageParam],
    question: str,
    *,
    url: str,
    key: str,
    agent_id: str,
    session_id: str,
    top_k: int = 5,
) -> str:
    """Return the answer of the model and add question and answer to the history.

    If the search fails, the model answers without passages.
    """
    history.append({"role": "user", "content": question})
    said = [{"role": str(one["role"]), "content": str(one.get("content"))} for one in history]
    try:
        passages = search(url, key, said, agent_id=agent_id, session_id=session_id, top_k=top_k)
    except SearchFailed:
        passages = []
    reply = client.chat.completions.create(model=model, messages=with_passages(history, passages))
    answer = reply.choices[0].message.content or ""
    history.append({"role": "assistant", "content": answer})
    return answer
