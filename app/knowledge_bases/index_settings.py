"""Settings of new search indexes, and checks of the settings that a caller chooses."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import SearchIndex
from app.errors import InvalidInputError
from app.filters import compile_filter
from app.ids import generate_id
from app.inference.embedding import Embedder, EmbeddingIdentity
from app.inference.embedding.model_registry import Embedders
from app.inference.embedding.search_defaults import get_search_defaults
from app.knowledge_bases.types import Chunking, KnowledgeBaseView, RequestedChunking
from app.lexical.languages import get_analyzer_id
from app.lexical.weights import K1, B
from app.source_kinds.clients import SourceClients


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Available models, chunkers, strategies, external services and extractors, from which knowledge bases choose."""

    embedders: Embedders
    chunkers: Collection[str]
    strategies: Collection[str]
    sources: SourceClients
    extractor_versions: Mapping[str, str] = field(default_factory=dict)
    chat_models: Collection[str] = ()


AUTOMATIC_MODEL = "automatic_model"
"""Setting of a live search index whose model no request named, so that the service may choose it by the documents."""


def build_index(
    tenant_id: UUID, kb_id: UUID, language: str, model: EmbeddingIdentity, graph: dict[str, Any] | None
) -> SearchIndex:
    """Return an empty live search index for a model, with the settings of its graph or None."""
    identity = {**asdict(model), "analyzer": get_analyzer_id(language), "k1": K1, "b": B}
    dim = model.dimensions
    return SearchIndex(
        tenant_id=tenant_id, kb_id=kb_id, id=generate_id(), identity=identity, dim=dim, state="live", graph=graph
    )


def build_next_index(
    kb: KnowledgeBaseView,
    model: EmbeddingIdentity,
    *,
    chunking: Chunking,
    language: str,
    graph: dict[str, Any] | None,
) -> SearchIndex:
    """Return the row of the next generation of a knowledge base. It has no documents yet.

    Args:
        kb: The knowledge base.
        model: Identity of the embedding model of the generation.
        chunking: Chunking of the generation.
        language: Language of the generation.
        graph: Settings of the graph of the generation; None if it gets no graph.
    """
    index = build_index(kb.row.tenant_id, kb.row.id, language, model, graph)
    index.state = "building"
    index.avgdl = kb.index.avgdl  # an estimate until the new average is known
    index.settings = {"chunking": asdict(chunking), "language": language}
    return index


def resolve_chunking(chunking: Chunking | RequestedChunking, embedder: Embedder) -> Chunking:
    """Return the chunking for documents that a model embeds, with its default size if none is requested.

    Args:
        chunking: The chunking of a request.
        embedder: The model. Its default is reduced to the number of tokens that it reads.
    """
    max_tokens = chunking.max_tokens
    if max_tokens is None:
        defaults = get_search_defaults(embedder.identity.model)
        max_tokens = min(defaults.max_tokens, embedder.max_tokens - embedder.special_tokens)
    return Chunking(chunking.strategy, max_tokens, chunking.overlap_tokens, chunking.options)


def check_chunking(chunking: Chunking, settings: IndexSettings, embedder: Embedder) -> None:
    """Check that a chunking can be used with a model.

    Args:
        chunking: The chunking.
        settings: The available chunkers.
        embedder: The model. A chunk must fit into its maximum input.

    Raises:
        InvalidInputError: The chunker does not exist, or a size is not valid.
    """
    require_valid_choice("chunker", chunking.strategy, settings.chunkers, ("body", "chunking", "strategy"))
    if chunking.overlap_tokens >= chunking.max_tokens:
        raise InvalidInputError(
            "overlap_tokens must be less than max_tokens. Lower it.", loc=("body", "chunking", "overlap_tokens")
        )
    if chunking.max_tokens > (max_tokens := embedder.max_tokens - embedder.special_tokens):
        message = f"The embedding model reads at most {max_tokens} tokens of a chunk. Lower max_tokens."
        raise InvalidInputError(message, loc=("body", "chunking", "max_tokens"))


def require_valid_choice(kind: str, name: str, choices: Collection[str], loc: tuple[str, ...]) -> None:
    """Raise InvalidInputError if a name is not one of the choices."""
    if name not in choices:
        raise InvalidInputError(f"No {kind} is named {name!r}. Choose one of: {', '.join(sorted(choices))}.", loc=loc)


def check_metadata_filter(metadata_filter: Mapping[str, Any]) -> None:
    """Check that a metadata filter is usable as enforced metadata of documents and as a filter that finds them."""
    loc = ("body", "metadata_filter")
    if any(isinstance(value, dict | list) or value is None for value in metadata_filter.values()):
        raise InvalidInputError(
            "Values of metadata_filter must be strings, numbers or booleans. Replace the other values.", loc=loc
        )
    if any("." in key or "\\" in key for key in metadata_filter):
        raise InvalidInputError("Keys of metadata_filter cannot contain a dot or a backslash. Rename the key.", loc=loc)
    compile_filter(metadata_filter, loc=loc)
