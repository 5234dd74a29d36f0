"""Languages of the embedding models, and warnings about texts in languages that a model does not read."""

from collections.abc import Mapping
from typing import Any

from app.inference.embedding import Embedder, EmbeddingIdentity
from app.inference.embedding.local_models import find_local_model, is_local
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.types import KnowledgeBaseView
from app.lexical.text_language import TextLanguage, identify_language
from app.warnings import ServiceWarning, WarningCode

MULTILINGUAL_MODEL = "multilingual-e5-small"
MAX_DOCUMENTS = 50
"""Maximum number of documents of a knowledge base whose embedding model the service changes by itself."""

_SETTING = f'`"embedding": {{"model": "{MULTILINGUAL_MODEL}"}}`'


def is_english_only(identity: EmbeddingIdentity | Mapping[str, Any]) -> bool:
    """Return whether a model is a local model that reads only English. Nothing is known of other models.

    Args:
        identity: Identity of the model, or of a search index. An endpoint's model may have the name of a local model.
    """
    if not isinstance(identity, EmbeddingIdentity):
        identity = EmbeddingIdentity.from_index_identity(identity)
    local_model = find_local_model(identity.model, identity.precision)
    return local_model is not None and local_model.language == "english"


def find_multilingual_embedder(embedders: Embedders) -> Embedder | None:
    """Return the embedder of the multilingual local model; None if its weights are not on this machine."""
    named = (embedder for embedder in embedders.all if embedder.identity.model == MULTILINGUAL_MODEL)
    return next((embedder for embedder in named if _is_local(embedder.identity)), None)


def build_document_warning(
    text: str, identity: EmbeddingIdentity, embedders: Embedders, kb: KnowledgeBaseView | None = None
) -> ServiceWarning | None:
    """Return the warning about a document that the embedding model does not read, or None.

    The call takes a few milliseconds; the first one may take a second.

    Args:
        text: Text of the document.
        identity: Identity of the embedding model.
        embedders: All embedders, to say whether the multilingual model is available.
        kb: Knowledge base of the document; None for a preview without a knowledge base.
    """
    language = identify_language(text) if is_english_only(identity) else None
    if language is None or language.is_english:
        return None
    cure = _build_cure(embedders, is_automatic=kb is not None and kb.index.chooses_model)
    return _build_warning("The document", language, f"the embedding model {identity.model!r}", cure)


def build_query_warning(language: TextLanguage, kb: KnowledgeBaseView, embedders: Embedders) -> ServiceWarning:
    """Return the warning about a query that the embedding model of a knowledge base does not read.

    Args:
        language: Language of the query, which is not English.
        kb: A searched knowledge base, whose model reads only English.
        embedders: All embedders, to say whether the multilingual model is available.
    """
    model = kb.index.identity["model"]
    cure = _build_cure(embedders, is_automatic=False)
    return _build_warning("The query", language, f"the embedding model {model!r} of {kb.display_name}", cure)


def _is_local(identity: EmbeddingIdentity) -> bool:
    return find_local_model(identity.model, identity.precision) is not None


def _build_warning(subject: str, language: TextLanguage, model: str, cure: str) -> ServiceWarning:
    message = f"{subject} is probably in {language.name.title()}, but {model} reads only English. {cure}"
    return ServiceWarning(WarningCode.LANGUAGE_NOT_SUPPORTED, message)


def _build_cure(embedders: Embedders, *, is_automatic: bool) -> str:
    if find_multilingual_embedder(embedders) is None:
        pull = f"Run `carrel models pull {MULTILINGUAL_MODEL}`"
        default = embedders.default.identity
        if not is_local(default.model, default.precision):  # then only the named local models are found
            pull += f", add the local model {MULTILINGUAL_MODEL!r} to CARREL_EMBEDDING_MODELS"
        return f"{pull} and restart the service. Then reindex the knowledge base with {_SETTING}."
    if is_automatic:
        return (
            f"The service changes the model to {MULTILINGUAL_MODEL!r} if most documents are not in English and there "
            f"are at most {MAX_DOCUMENTS}. Otherwise reindex the knowledge base with {_SETTING}."
        )
    return f"Create the knowledge base with {_SETTING}, or reindex it with this model."
