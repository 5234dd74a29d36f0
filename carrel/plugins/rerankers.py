"""Interface for reranker plugins: the protocol, settings and the error of a reranker.

Type aliases:
    RerankFailureReason: Why a reranker gives no scores, one of a fixed set of words; an attribute of
        ``RerankUnavailable``.
"""

from app.inference.rerank import Reranker, RerankFailureReason, RerankUnavailable
from app.settings.rerank import RerankSettings

__all__ = ["RerankFailureReason", "RerankSettings", "RerankUnavailable", "Reranker"]
