"""Retrieval as a tool: the model writes the query, and the reader sees the sources of the answer."""

import json
from dataclasses import dataclass
from typing import Any

import httpx2
from openai import OpenAI
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageParam,
    ChatCompletionMessageToolCallUnion,
)

MOST_CALLS = 3
TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "search_knowledge",
        "description": "Passages of the company's documents that answer a question. Ask it in full, without pronouns.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "top_k": {"type": "integer", "minimum": 1, "maximum": 20}},
            "required": ["query"],
        },
    },
}


@dataclass(frozen=True)
class Source:
    """Source of an answer, for display below the answer: one page of a document."""

    citation: str
    document_id: str
    page: int | None


@dataclass(frozen=True)
class Knowledge:
    """Search of at most ``top_k`` passages with a similarity of at least ``score_threshold``."""

    carrel: httpx2.Client
    top_k: int = 5
    score_threshold: float = 0.2

    def search(self, query: str, top_k: int | None) -> list[dict[str, Any]]:
        """Return results with their documents and pages, or no results if the search fails."""
        most = min(top_k or self.top_k, self.top_k)
        body = {"query": query, "top_k": most, "score_threshold": self.score_threshold}
        try:
            reply = self.carrel.post("/v1/search", json=body).raise_for_status()
        except httpx2.HTTPError:
            return []
        results: list[dict[str, Any]] = reply.json()["results"]
        return results


def turn(
    client: OpenAI, model: str, history: list[ChatCompletionMessageParam], question: str, knowledge: Knowledge
) -> tuple[str, list[Source]]:
    """Return the answer and its sources, and add question and answer, without tool results, to the history."""
    asked: ChatCompletionMessageParam = {"role": "user", "content": question}
    messages = [*history, asked]
    sources: dict[Source, None] = {}
    answer = ""
    for call in range(MOST_CALLS + 1):
        choice = "auto" if call < MOST_CALLS else "none"
        reply = client.chat.completions.create(model=model, messages=messages, tools=[TOOL], tool_choice=choice)
        message = reply.choices[0].message
        answer = message.content or ""
        if not message.tool_calls:
            break
        messages.append({"role": "assistant", "tool_calls": [one.model_dump() for one in message.tool_calls]})  # type: ignore[misc, list-item]
        for wanted in message.tool_calls:
            results = _results(knowledge, wanted)
            sources |= {Source(one["citation"], one["document"]["id"], one["page"]): None for one in results}
            told = [{"source": one["citation"], "text": one["text"]} for one in results]
            messages.append({"role": "tool", "tool_call_id": wanted.id, "content": json.dumps(told)})
    history += [asked, {"role": "assistant", "content": answer}]
    return answer, list(sources)


def _results(knowledge: Knowledge, wanted: ChatCompletionMessageToolCallUnion) -> list[dict[str, Any]]:
    """Return the results of a tool call, or no results if the call names another tool or has wrong arguments."""
    if wanted.type != "function" or wanted.function.name != "search_knowledge":
        return []
    try:
        given = json.loads(wanted.function.arguments)
        return knowledge.search(str(given["query"]), given.get("top_k"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
