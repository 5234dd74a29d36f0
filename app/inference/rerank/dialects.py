"""Registry of the families of rerank endpoints, by their name in CARREL_RERANK_API."""

from collections.abc import Mapping

from app.inference.rerank.cohere import COHERE
from app.inference.rerank.dialect import RerankDialect
from app.inference.rerank.jina import JINA
from app.inference.rerank.tei import TEI
from app.inference.rerank.vllm import VLLM
from app.settings.rerank import RerankApi

DIALECTS: Mapping[RerankApi, RerankDialect] = {
    "tei": TEI,
    "cohere": COHERE,
    "jina": JINA,
    "vllm": VLLM,
}
