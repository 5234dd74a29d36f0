"""What a binding makes of its agent's search: the request inside its limits, and the passages as it wants them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.access import Principal
from app.agents.types import AgentBinding, BindingSettings
from app.documents.scopes import Scope
from app.errors import InvalidInput
from app.ids import encode_id
from app.logging import get_logger
from app.retrieval.rewriting import ASKING
from app.retrieval.routes import Routing
from app.retrieval.strategies import find_strategy, strategy_options
from app.retrieval.types import Hit, Message, SearchRequest

logger = get_logger(__name__)
DEFAULT_TOP_K = 5


def bound_request(
    request: SearchRequest, binding: AgentBinding, principal: Principal, *, session_id: str | None
) -> SearchRequest:
    """The request inside the binding's limits, and in those of its knowledge bases that the key may see.

    One that the request names already is searched in their place. ``session_id`` is the caller's claim: it opens that
    chat's documents only where the binding allows it.
    """
    readable = filter(principal.may_see, binding.knowledge_base_ids)
    settings = binding.settings
    strategy, options = _strategy(binding)
    top_k = request.top_k or settings.top_k or DEFAULT_TOP_K
    return replace(
        request,
        messages=_newest(request.messages, settings.max_messages),
        knowledge_bases=request.knowledge_bases or [encode_id("kb", one) for one in readable],
        top_k=min(top_k, settings.max_top_k or top_k),
        score_threshold=settings.score_threshold,
        strategy=strategy,
        strategy_options=options,
        kept_transformers=settings.transformers,
        prompts=settings.prompts(owner=binding.agent_id),
        filter=settings.filter,
        routing=None if settings.route_top_n is None else Routing(settings.route_top_n),
        scope=Scope(None, session_id, binding.agent_id) if settings.session_scope and session_id else Scope(),
        rerank=request.rerank if settings.rerank is None else settings.rerank,
        timeout_seconds=settings.timeout_seconds or request.timeout_seconds,
    )


def _newest(messages: Sequence[Message], most: int | None) -> Sequence[Message]:
    """The newest ones, and the newest question if it is none of them: many tool messages may follow it."""
    if most is None:
        return messages
    questions = [one for one in messages if one.role in ASKING and one.content.strip()]
    newest = messages[-most:]
    return [*([] if any(one in questions for one in newest) else questions[-1:]), *newest]


def _strategy(binding: AgentBinding) -> tuple[str | None, Mapping[str, Any]]:
    """As stored; the default where the plug-in is gone that knew it: an agent gets no error for that."""
    name, options = binding.settings.strategy, binding.settings.strategy_options
    if name is None:
        return None, {}
    try:
        strategy_options(find_strategy(name, loc=()), options, loc=())
    except InvalidInput:
        logger.warning("agent_search.strategy_unknown", agent=encode_id("bnd", binding.id), strategy=name)
        return None, {}
    return name, options


def snippet(hit: Hit, settings: BindingSettings) -> str:
    """The passage, behind its citation and no longer than it may be, where the binding says so."""
    text = hit.chunk.content
    if settings.citations == "prefix" and text.strip():
        text = f"[{' '.join(hit.citation.split())}] {text}"
    return _unjoined(text[: settings.max_snippet_chars])


def _unjoined(text: str) -> str:
    """The text with a dash for every line of three hyphens or more: with such lines the caller joins snippets."""
    lines = text.splitlines(keepends=True)
    return "".join(line.replace(line.strip(), "\u2014") if _is_rule(line.strip()) else line for line in lines)


def _is_rule(line: str) -> bool:
    return len(line) >= 3 and not line.strip("-")
