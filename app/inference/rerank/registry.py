"""The families of rerank endpoints, by the name that CARREL_RERANK_STYLE has for them."""

from collections.abc import Mapping

from app.inference.rerank.cohere import COHERE
from app.inference.rerank.jina import JINA
from app.inference.rerank.tei import TEI
from app.inference.rerank.vllm import VLLM
from app.inference.rerank.wire import Wire
from app.settings.rerank import Style

WIRES: Mapping[Style, Wire] = {
    "tei": TEI,
    "cohere": COHERE,
    "jina": JINA,
    "vllm": VLLM,
}
