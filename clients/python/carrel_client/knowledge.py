"""Knowledge of an agent. ``generate.py`` makes this file from ``async_knowledge.py``: edit that file."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from carrel_client import knowledge_types
from carrel_client.errors import CarrelError
from carrel_client.knowledge_types import ChatMessage, HintEvent, KnowledgeToolArguments, Mode, PreparedTurn, ToolReply
from carrel_client.sync_client import Client
from carrel_client.types import KnowledgeBase, Result, SearchOptions


class Knowledge:
    """Knowledge bases as the knowledge of an agent that calls a chat model.

    In the mode ``static``, each turn searches by the conversation and gives the model the passages. In the mode
    ``agentic``, the model calls the tool ``search_knowledge``. The mode ``both`` does both. A failed search never
    raises: the turn goes on without passages, and ``error`` says why.
    """

    def __init__(
        self,
        client: Client,
        *,
        mode: Mode = "agentic",
        knowledge_bases: Sequence[str] | None = None,
        top_k: int = 5,
        score_threshold: float | Literal["auto"] | None = None,
        emit_hint_event: bool = True,
        persist_hint: bool = False,
        hint_template: str = knowledge_types.DEFAULT_HINT_TEMPLATE,
        citations: bool = True,
        options: SearchOptions | None = None,
    ) -> None:
        """Create the knowledge of an agent.

        Args:
            client: Client of the service.
            mode: Search before each turn (``static``), on request of the model (``agentic``), or ``both``.
            knowledge_bases: Names of the searched knowledge bases. None: all that the API key may read.
            top_k: Maximum number of passages of a search.
            score_threshold: Minimum similarity of a passage; ``auto`` for the threshold of the embedding model.
            emit_hint_event: Whether a turn with passages has an event for the interface.
            persist_hint: Whether the message of passages stays in the conversation after the turn.
            hint_template: Text around the passages. ``{context}`` becomes the passages.
            citations: Whether each passage begins with its citation.
            options: More options of ``Client.search``.

        Raises:
            ValueError: A setting is invalid.
        """
        knowledge_types.check_settings(mode, top_k, hint_template)
        self.client = client
        self.mode: Mode = mode
        self.knowledge_bases = None if knowledge_bases is None else list(knowledge_bases)
        self.top_k = top_k
        self.score_threshold = score_threshold
        self.emit_hint_event = emit_hint_event
        self.persist_hint = persist_hint
        self.hint_template = hint_template
        self.citations = citations
        self.options: SearchOptions = options or {}

    def start_turn(self, messages: list[ChatMessage]) -> PreparedTurn:
        """Return the messages for the model at the start of a turn.

        In the mode ``agentic``, they are the messages of the conversation.

        Args:
            messages: The conversation, oldest first, with the new question at the end. If ``persist_hint`` is true, the
                message of passages is also added to this list. Else the list stays as it is.
        """
        conversation = knowledge_types.to_service_messages(messages)
        if self.mode == "agentic" or not conversation:
            return PreparedTurn(list(messages), [], [])
        try:
            results = self._search({"messages": conversation}, self.knowledge_bases, self.top_k)
        except CarrelError as error:
            return PreparedTurn(list(messages), [], [], error)
        if not results:
            return PreparedTurn(list(messages), [], [])
        content = knowledge_types.join_snippets(results, citations=self.citations)
        prepared = knowledge_types.insert_hint(messages, knowledge_types.build_hint(content, self.hint_template))
        if self.persist_hint:
            messages[:] = prepared
        events: list[HintEvent] = [{"type": "hint", "content": content, "results": results}]
        return PreparedTurn(prepared, results, events if self.emit_hint_event else [])

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools for the model, as the OpenAI API has them; none in the mode ``static``.

        The description of ``search_knowledge`` lists the knowledge bases with their descriptions.

        Raises:
            CarrelError: The service did not return the knowledge bases.
        """
        if self.mode == "static":
            return []
        return [knowledge_types.build_tool(self._list_knowledge_bases(), self.top_k)]

    def call_tool(self, name: str, arguments: str | Mapping[str, Any]) -> ToolReply:
        """Run a tool call of the model. Wrong names and arguments are a text for the model, not an error.

        Args:
            name: Name of the tool.
            arguments: Arguments as the model wrote them, or parsed.
        """
        if self.mode == "static" or name != knowledge_types.TOOL_NAME:
            return ToolReply(f"Unknown tool {name!r}.", [])
        try:
            names = [item["name"] for item in self._list_knowledge_bases()]
            parsed = knowledge_types.parse_arguments(arguments, names, self.top_k)
            results = self._search_for_tool(parsed)
        except ValueError as error:
            return ToolReply(str(error), [])
        except CarrelError as error:
            return ToolReply("The search failed. Answer without it, and say so.", [], error)
        if not results:
            return ToolReply("No passage matches. Try other words, or say that nothing was found.", [])
        return ToolReply(knowledge_types.join_snippets(results, citations=self.citations), results)

    def _search_for_tool(self, arguments: KnowledgeToolArguments) -> list[Result]:
        return self._search(
            {}, arguments.knowledge_bases or self.knowledge_bases, arguments.top_k, query=arguments.query
        )

    def _search(
        self, body: SearchOptions, knowledge_bases: Sequence[str] | None, top_k: int, *, query: str | None = None
    ) -> list[Result]:
        fixed: SearchOptions = {"top_k": top_k, "score_threshold": self.score_threshold}
        options = cast(SearchOptions, {**self.options, **body, **fixed})
        reply = self.client.search(query, knowledge_bases=knowledge_bases, **options)
        return reply["results"]

    def _list_knowledge_bases(self) -> list[KnowledgeBase]:
        """Return the knowledge bases that the model may name."""
        if self.knowledge_bases is None:
            return [item for item in self.client.knowledge_bases.list()]
        return [self.client.knowledge_bases.get(name) for name in self.knowledge_bases]
