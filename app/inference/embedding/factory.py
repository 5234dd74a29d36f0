"""Create the configured embedders: embedders of plugins, of endpoints, and of the embedded model.

An embedder is imported only when it is chosen. An SDK takes a third of a second at the start and tens of megabytes. The
embedded model needs the packages of ``carrel[embedded]``, which an installation with endpoints does not need.
"""

from pathlib import Path

from app.errors import AppError
from app.inference.embedding import Embedder
from app.inference.embedding.model_registry import Embedders
from app.inference.embedding.rate_limit import (
    RateLimiter,
    RateLimitStore,
    SharedRateLimiter,
    UnlimitedRateLimiter,
    compute_provider_key,
)
from app.inference.embedding.weights import find_weights
from app.settings import AdditionalEmbeddingModel, EmbeddingSettings, get_user_cache_dir


class EmbeddedModelMissing(AppError):
    """The embedded model needs `pip install carrel[embedded]`; or set CARREL_EMBEDDING_BASE_URL."""

    code = "embedded_model_missing"


class DuplicateEmbeddingModel(AppError):
    """CARREL_EMBEDDING_MODELS names a model twice; remove one."""

    code = "duplicate_embedding_model"


def create_embedders(settings: EmbeddingSettings, *, bulk_threads: int, rate_limit_store: RateLimitStore) -> Embedders:
    """Create the embedders of the default model and of all additional models. The call blocks.

    Args:
        settings: Settings of the models.
        bulk_threads: Number of threads of the embedded model for documents.
        rate_limit_store: Store of the rate limits.

    Raises:
        DuplicateEmbeddingModel: Two models have the same name and dimensions.
        EmbedderMissing: No installed plugin has the configured embedder.
        EmbedderRefused: The embedder of the plugin cannot be created.
        EmbeddedModelMissing: The packages of the embedded model are not installed.
        WeightsMissing: The weights of the embedded model are missing.
    """
    default = create_embedder(settings, bulk_threads, rate_limit_store)
    additional = [
        _create_own_embedder(model, settings.weights_dir, bulk_threads, rate_limit_store) for model in settings.models
    ]
    names: set[tuple[str, int]] = set()
    for embedder in (default, *additional):
        name = (embedder.identity.model, embedder.identity.dimensions)
        if name in names:
            raise DuplicateEmbeddingModel(
                f"CARREL_EMBEDDING_MODELS: {name[0]!r} of {name[1]} dimensions is configured twice. Remove one."
            )
        names.add(name)
    return Embedders(default, additional)


def create_embedder(settings: EmbeddingSettings, bulk_threads: int, rate_limit_store: RateLimitStore) -> Embedder:
    """Create the default embedder: of the configured plugin, else of the endpoint, else of the embedded model.

    The call blocks.

    Args:
        settings: Settings of the model.
        bulk_threads: Number of threads of the embedded model for documents.
        rate_limit_store: Store of the rate limits.

    Raises:
        EmbedderMissing: No installed plugin has the configured embedder.
        EmbedderRefused: The embedder of the plugin cannot be created.
        EmbeddedModelMissing: The packages of the embedded model are not installed.
        WeightsMissing: The weights of the embedded model are missing.
    """
    if settings.provider is not None:
        from app.inference.embedding.plugin_embedder import create_plugin_embedder

        return create_plugin_embedder(settings.provider, settings)
    return _create_own_embedder(settings, settings.weights_dir, bulk_threads, rate_limit_store)


def _create_own_embedder(
    settings: EmbeddingSettings | AdditionalEmbeddingModel,
    weights_dir: Path | None,
    bulk_threads: int,
    rate_limit_store: RateLimitStore,
) -> Embedder:
    if settings.base_url is not None and settings.dimensions is not None:
        from app.inference.embedding.openai_embedder import OpenAIEmbedder

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
            format_setting_name=settings.format_setting_name,
            image_format=settings.images,
            rate_limiter=_create_rate_limiter(settings, settings.base_url, rate_limit_store),
        )
    try:
        from app.inference.embedding.minilm import MiniLMEmbedder
    except ImportError as exc:
        raise EmbeddedModelMissing from exc
    return MiniLMEmbedder.load(
        find_weights(weights_dir, get_user_cache_dir()),
        precision=settings.precision,
        bulk_threads=bulk_threads,
        query_prefix=settings.query_prefix,
        document_prefix=settings.document_prefix,
    )


def _create_rate_limiter(
    settings: EmbeddingSettings | AdditionalEmbeddingModel, base_url: str, rate_limit_store: RateLimitStore
) -> RateLimiter:
    """Create the rate limiter that all processes share; without limits it does not use the database."""
    if settings.requests_per_minute is None and settings.tokens_per_minute is None:
        return UnlimitedRateLimiter()
    return SharedRateLimiter(
        rate_limit_store,
        compute_provider_key(base_url, settings.model),
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
    )
