"""Answers in the name of an agent: the binding of the agent applies to the search for sources."""

from collections.abc import Collection
from dataclasses import replace

from app.answering.context_window import compute_default_top_k
from app.answering.types import AnswerRequest
from app.api.v1.search.agent_binding import apply_binding
from app.bootstrap import TenantServices
from app.warnings import ServiceWarning, WarningCode

AGENT_NOT_BOUND = ServiceWarning(
    WarningCode.AGENT_NOT_BOUND, "The agent has no binding, so the answer uses no settings of an agent."
)
SESSION_NOT_SEARCHED = ServiceWarning(
    WarningCode.SESSION_NOT_SEARCHED,
    "The documents of the chat session_id were not searched: this needs an agent whose binding has session_scope.",
)


async def apply_agent(
    tenant: TenantServices,
    answer_request: AnswerRequest,
    *,
    agent_id: str | None,
    session_id: str | None,
    provided: Collection[str],
) -> AnswerRequest:
    """Return an answer request within the limits of an agent's binding, as in the agent's search.

    Args:
        tenant: Services of the caller.
        answer_request: Request of the caller.
        agent_id: Id of the agent on its platform; None for no agent.
        session_id: Id of the chat that the caller claims; None for none.
        provided: Names of the fields that the caller provided, which take precedence over the binding.

    Returns:
        The request with the settings of the binding. Notices say what was not applied.

    Raises:
        DatabaseUnavailable: The binding cannot be read in time.
    """
    search = answer_request.search
    binding = None if agent_id is None else await tenant.agents.resolve_binding(agent_id)
    notices = [AGENT_NOT_BOUND] if agent_id is not None and binding is None else []
    if session_id is not None and (binding is None or not binding.settings.session_scope):
        notices.append(SESSION_NOT_SEARCHED)
    if binding is not None:
        is_reranked = search.rerank if "rerank" in provided else tenant.retrieval.reranker is not None
        search = apply_binding(
            replace(search, rerank=is_reranked),
            binding,
            tenant.principal,
            session_id=session_id,
            default_top_k=compute_default_top_k(answer_request.max_context_tokens),
            provided=provided,
        )
    return replace(answer_request, search=replace(search, notices=[*search.notices, *notices]))
