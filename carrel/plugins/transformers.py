"""Interface for transformer plugins: queries, the conversation, the chat model, and the result of a transformer."""

from app.retrieval.explain import Reformulation
from app.retrieval.search_run import SearchRun
from app.retrieval.transformers.transformer import (
    ConversationAnalysis,
    NoTransformerOptions,
    TransformContext,
    Transformer,
    TransformResult,
)
from app.retrieval.types import Message
from app.warnings import ServiceWarning

__all__ = [
    "ConversationAnalysis",
    "Message",
    "NoTransformerOptions",
    "Reformulation",
    "SearchRun",
    "ServiceWarning",
    "TransformContext",
    "TransformResult",
    "Transformer",
]
