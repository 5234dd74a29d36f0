"""Agent with the knowledge of a Carrel service: passages before each turn, a search tool for the model, or both."""

from dataclasses import dataclass
from typing import cast

from carrel_client import HintEvent, Knowledge
from carrel_client.knowledge_types import ChatMessage
from carrel_client.types import Result
from openai import OpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

MAX_TOOL_TURNS = 3
"""Number of model calls of a turn that may end in tool calls."""


@dataclass(frozen=True)
class Source:
    """Source of an answer, for display below the answer: one page of a document."""

    citation: str
    document_id: str | None
    page: int | None


@dataclass(frozen=True)
class AgentAnswer:
    """Answer of a turn with its sources, and events for an interface."""

    text: str
    sources: list[Source]
    events: list[HintEvent]


def run_turn(
    client: OpenAI, model: str, history: list[ChatMessage], question: str, knowledge: Knowledge
) -> AgentAnswer:
    """Answer a question, and add question and answer to the history.

    Args:
        client: Client of the chat model.
        model: Name of the chat model.
        history: The conversation. It contains passages only if ``knowledge.persist_hint`` is true.
        question: Question of the user.
        knowledge: Knowledge of the agent. Its mode decides who searches.
    """
    history.append({"role": "user", "content": question})
    prepared = knowledge.start_turn(history)
    messages = cast("list[ChatCompletionMessageParam]", prepared.messages)
    results = list(prepared.results)
    tools = cast("list[ChatCompletionFunctionToolParam]", knowledge.list_tools())
    answer = ""
    for number in range(MAX_TOOL_TURNS + 1):
        if tools:
            choice = "auto" if number < MAX_TOOL_TURNS else "none"
            reply = client.chat.completions.create(model=model, messages=messages, tools=tools, tool_choice=choice)
        else:
            reply = client.chat.completions.create(model=model, messages=messages)
        message = reply.choices[0].message
        answer = message.content or ""
        calls = [call for call in message.tool_calls or () if call.type == "function"]
        if not calls:
            break
        messages.append(cast("ChatCompletionMessageParam", message.model_dump(exclude_none=True)))
        for call in calls:
            found = knowledge.call_tool(call.function.name, call.function.arguments)
            results += found.results
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found.content})
    history.append({"role": "assistant", "content": answer})
    return AgentAnswer(answer, list_sources(results), prepared.events)


def list_sources(results: list[Result]) -> list[Source]:
    """Return the sources of results without repetition, in their order."""
    return list(dict.fromkeys(Source(item["citation"], item["document"]["id"], item["page"]) for item in results))
