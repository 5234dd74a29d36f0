"""What a binding makes of its agent's search: the request inside its limits, and the passages as it wants them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.agents.types import BindingSettings, BoundAgent
from app.documents.scopes import DocumentScope
from app.errors import InvalidInputError
from app.ids import encode_id
from app.logging import get_logger
from app.principal import Principal
from app.retrieval.conversation import ASKING_ROLES
from app.retrieval.routes import RoutingOptions
from app.retrieval.strategies import find_strategy, parse_strategy_options
from app.retrieval.types import Hit, Message, SearchRequest

logger = get_logger(__name__)
DEFAULT_TOP_K = 5


def apply_binding(
    request: SearchRequest, binding: BoundAgent, principal: Principal, *, session_id: str | None
) -> SearchRequest:
    """The request inside the binding's limits, and in those of its knowledge bases that the key may see.

    One that the request names already is searched in their place. ``session_id`` is the caller's claim: it opens that
    chat's documents only where the binding allows it.
    """
    readable_ids = filter(principal.can_access, binding.knowledge_base_ids)
    settings = binding.settings
    strategy, options = _resolve_strategy(binding)
    top_k = request.top_k or settings.top_k or DEFAULT_TOP_K
    return replace(
        request,
        messages=_select_newest(request.messages, settings.max_messages),
        knowledge_bases=request.knowledge_bases or [encode_id("kb", kb_id) for kb_id in readable_ids],
        top_k=min(top_k, settings.max_top_k or top_k),
        score_threshold=settings.score_threshold,
        strategy=strategy,
        strategy_options=options,
        stored_transformers=settings.transformers,
        prompts=settings.get_active_prompts(owner=binding.agent_id),
        filter=settings.filter,
        routing=None if settings.route_top_n is None else RoutingOptions(settings.route_top_n),
        scope=DocumentScope(None, session_id, binding.agent_id)
        if settings.session_scope and session_id
        else DocumentScope(),
        rerank=request.rerank if settings.rerank is None else settings.rerank,
        timeout_seconds=settings.timeout_seconds or request.timeout_seconds,
    )


def _select_newest(messages: Sequence[Message], max_messages: int | None) -> Sequence[Message]:
    """The newest ones, and the newest question if it is none of them: many tool messages may follow it."""
    if max_messages is None:
        return messages
    questions = [message for message in messages if message.role in ASKING_ROLES and message.content.strip()]
    newest = messages[-max_messages:]
    return [*([] if any(message in questions for message in newest) else questions[-1:]), *newest]


def _resolve_strategy(binding: BoundAgent) -> tuple[str | None, Mapping[str, Any]]:
    """As stored; the default where the plug-in is gone that knew it: an agent gets no error for that."""
    name, options = binding.settings.strategy, binding.settings.strategy_options
    if name is None:
        return None, {}
    try:
        parse_strategy_options(find_strategy(name, loc=()), options, loc=())
    except InvalidInputError:
        logger.warning("agent_search.strategy_unknown", agent=encode_id("bnd", binding.id), strategy=name)
        return None, {}
    return name, options


def format_snippet(hit: Hit, settings: BindingSettings) -> str:
    """The passage, behind its citation and no longer than it may be, where the binding says so."""
    text = hit.chunk.content
    if settings.citations == "prefix" and text.strip():
        text = f"[{' '.join(hit.citation.split())}] {text}"
    return _replace_rules(text[: settings.max_snippet_chars])


def _replace_rules(text: str) -> str:
    """The text with a dash for every line of three hyphens or more: with such lines the caller joins snippets."""
    lines = text.splitlines(keepends=True)
    return "".join(
        line.replace(line.strip(), "\u2014") if _is_horizontal_rule(line.strip()) else line for line in lines
    )


def _is_horizontal_rule(line: str) -> bool:
    return len(line) >= 3 and not line.strip("-")
