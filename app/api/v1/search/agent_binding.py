"""Application of an agent's binding to a search: limits of the request, and format of the passages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.agents.types import BindingSettings, BoundAgent
from app.documents.scopes import DocumentScope
from app.errors import InvalidInputError
from app.ids import encode_id
from app.logging import get_logger
from app.principal import Principal
from app.retrieval.conversation import is_question, list_newest_positions
from app.retrieval.routes import RoutingOptions
from app.retrieval.strategies import DEFAULT_STRATEGY, find_strategy, parse_strategy_options
from app.retrieval.types import Hit, Message, SearchRequest
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)
DEFAULT_TOP_K = 5


def apply_binding(
    request: SearchRequest,
    binding: BoundAgent,
    principal: Principal,
    *,
    session_id: str | None,
    default_top_k: int = DEFAULT_TOP_K,
    provided: Collection[str] = (),
) -> SearchRequest:
    """Return a search request within the limits of a binding.

    The search runs in the knowledge bases of the request, else in those of the binding that the key may read.

    Args:
        request: Search request of the caller.
        binding: Binding of the agent.
        principal: Caller, whose key limits the knowledge bases.
        session_id: Id of the chat that the caller claims. The search reads the documents of this chat only if the
            binding allows it.
        default_top_k: Number of hits if neither the request nor the binding has a number.
        provided: Names of fields that the caller provided. They take precedence over the binding, within its limits:
            the filter of the binding applies in any case.

    Returns:
        The search request.
    """
    readable_ids = filter(principal.can_access, binding.knowledge_base_ids)
    settings = binding.settings
    strategy, options, notices = _resolve_strategy(binding)
    if request.strategy is not None:
        strategy, options = request.strategy, request.strategy_options
    elif "strategy_options" in provided and strategy in (None, settings.strategy):  # not those of a missing strategy
        options = {**options, **request.strategy_options}
    top_k = request.top_k or settings.top_k or default_top_k
    routing = None if settings.route_top_n is None else RoutingOptions(settings.route_top_n)
    timeout_seconds = request.timeout_seconds if "timeout_seconds" in provided else settings.timeout_seconds
    return replace(
        request,
        messages=_select_newest(request.messages, settings.max_messages),
        knowledge_bases=request.knowledge_bases or [encode_id("kb", kb_id) for kb_id in readable_ids],
        top_k=min(top_k, settings.max_top_k or top_k),
        score_threshold=request.score_threshold if "score_threshold" in provided else settings.score_threshold,
        strategy=strategy,
        strategy_options=options,
        stored_transformers=settings.transformers,
        stored_conversation=settings.conversation,
        prompts=settings.get_active_prompts(owner=binding.agent_id),
        filter=_combine_filters(settings.filter, request.filter),
        routing=request.routing if "routing" in provided else routing,
        scope=_open_session(request.scope, binding, session_id),
        rerank=request.rerank if settings.rerank is None or "rerank" in provided else settings.rerank,
        combine=request.combine or settings.combine,
        collapse=request.collapse if "collapse" in provided else settings.collapse,
        timeout_seconds=timeout_seconds or request.timeout_seconds,
        notices=[*request.notices, *notices],
    )


def _combine_filters(
    binding_filter: Mapping[str, Any] | None, request_filter: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return a filter that both filters pass; None if there is none."""
    filters = [part for part in (binding_filter, request_filter) if part]
    return {"and": filters} if len(filters) > 1 else next(iter(filters), None)


def _open_session(scope: DocumentScope, binding: BoundAgent, session_id: str | None) -> DocumentScope:
    """Return the scope of the request with the chat of the session, if the binding allows it and no chat is named.

    If the scope has a user, the chat is that user's.
    """
    if scope.chat_id is not None or not session_id or not binding.settings.session_scope:
        return scope
    return replace(scope, chat_id=session_id, agent_id=binding.agent_id)


def _select_newest(messages: Sequence[Message], max_messages: int | None) -> Sequence[Message]:
    """Return the newest messages, one of them the newest question."""
    if max_messages is None:
        return messages
    return [messages[position] for position in list_newest_positions([*map(is_question, messages)], max_messages)]


def _resolve_strategy(binding: BoundAgent) -> tuple[str | None, Mapping[str, Any], list[ServiceWarning]]:
    """Return the stored strategy and its options. If the plugin of the strategy is missing, return the default
    strategy with a warning, so that the agent gets results instead of an error.
    """
    name, options = binding.settings.strategy, binding.settings.strategy_options
    if name is None:
        return None, {}, []
    try:
        strategy = find_strategy(name, loc=())
    except InvalidInputError:
        logger.warning("agent_search.strategy_unknown", agent=encode_id("bnd", binding.id), strategy=name)
        message = f"The strategy {name!r} of the agent is not installed, so {DEFAULT_STRATEGY} was used instead."
        return DEFAULT_STRATEGY, {}, [ServiceWarning(WarningCode.STRATEGY_UNAVAILABLE, message)]
    try:
        parse_strategy_options(strategy, options, loc=())
    except InvalidInputError:
        logger.warning("agent_search.strategy_options_unknown", agent=encode_id("bnd", binding.id), strategy=name)
        message = f"The options of the strategy {name!r} of the agent are no longer valid and were ignored."
        return name, {}, [ServiceWarning(WarningCode.STRATEGY_OPTIONS_IGNORED, message)]
    return name, options, []


def format_snippet(hit: Hit, settings: BindingSettings) -> str:
    """Return the text of a hit, with citation and maximum length as the settings of the binding request."""
    text = hit.chunk.content
    if settings.citations == "prefix" and text.strip():
        text = f"[{' '.join(hit.citation.split())}] {text}"
    return cut_snippet(text, settings)


def cut_snippet(text: str, settings: BindingSettings) -> str:
    """Return a text with the maximum length of the settings, and without lines that separate passages."""
    return _replace_rules(text[: settings.max_snippet_chars])


def _replace_rules(text: str) -> str:
    """Return the text with a dash in place of each line of three or more hyphens: the caller joins passages with such
    lines.
    """
    lines = text.splitlines(keepends=True)
    return "".join(
        line.replace(line.strip(), "\u2014") if _is_horizontal_rule(line.strip()) else line for line in lines
    )


def _is_horizontal_rule(line: str) -> bool:
    return len(line) >= 3 and not line.strip("-")
