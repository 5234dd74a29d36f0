"""Create the configured embedders: embedders of plugins, of endpoints, and of local models.

An embedder is imported only when it is chosen. An SDK takes a third of a second at the start and tens of megabytes.
Local models need the packages of ``carrel[embedded]``, which an installation with endpoints does not need.
"""

from pathlib import Path

from app.errors import AppError
from app.inference.embedding import Embedder
from app.inference.embedding.local_models import LOCAL_MODELS, LocalModel
from app.inference.embedding.model_registry import Embedders
from app.inference.embedding.rate_limit import (
    RateLimiter,
    RateLimitStore,
    SharedRateLimiter,
    UnlimitedRateLimiter,
    compute_provider_key,
)
from app.inference.embedding.weights import require_weights
from app.inference.onnx_directory import LocalModelRefused
from app.settings import AdditionalEmbeddingModel, EmbeddingSettings, get_user_cache_dir
from app.settings.embedding import ENDPOINT_MAX_TOKENS


class EmbeddedModelMissing(AppError):
    """Local models need `pip install carrel[embedded]`; or set CARREL_EMBEDDING_BASE_URL."""

    code = "embedded_model_missing"


class UnknownLocalModel(AppError):
    """Without an endpoint, CARREL_EMBEDDING_MODEL names a pinned local model; `carrel models list` shows them."""

    code = "unknown_local_model"


class DuplicateEmbeddingModel(AppError):
    """CARREL_EMBEDDING_MODELS names a model twice; remove one."""

    code = "duplicate_embedding_model"


def create_embedders(settings: EmbeddingSettings, *, bulk_threads: int, rate_limit_store: RateLimitStore) -> Embedders:
    """Create the embedders of the default model and of all additional models. The call blocks.

    If the default model is a local one, all local models on the machine are available too. So a search index keeps its
    model when the default changes. These models are loaded when they are first used.

    Args:
        settings: Settings of the models.
        bulk_threads: Number of threads of a local model for documents.
        rate_limit_store: Store of the rate limits.

    Raises:
        DuplicateEmbeddingModel: Two models have the same name and dimensions.
        EmbedderMissing: No installed plugin has the configured embedder.
        EmbedderRefused: The embedder of the plugin cannot be created.
        UnknownLocalModel: The settings name no pinned local model, or a precision that it lacks.
        LocalModelRefused: The directory of CARREL_EMBEDDING_LOCAL cannot be used.
        EmbeddedModelMissing: The packages of local models are not installed.
        WeightsMissing: The weights of a configured local model are missing.
        WeightsDamaged: The weights of a configured local model cannot be read.
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
    if settings.provider is not None or settings.base_url is not None:
        return Embedders(default, additional)
    from app.inference.embedding.local_loader import list_available_embedders

    configured = [embedder.identity for embedder in (default, *additional)]
    available, identity_only = list_available_embedders(
        settings.weights_dir, get_user_cache_dir(), except_for=configured, bulk_threads=bulk_threads
    )
    return Embedders(default, (*additional, *available), identity_only)


def create_embedder(settings: EmbeddingSettings, bulk_threads: int, rate_limit_store: RateLimitStore) -> Embedder:
    """Create the default embedder: of the configured plugin, else of the endpoint, else of a local model.

    The call blocks.

    Args:
        settings: Settings of the model.
        bulk_threads: Number of threads of a local model for documents.
        rate_limit_store: Store of the rate limits.

    Raises:
        EmbedderMissing: No installed plugin has the configured embedder.
        EmbedderRefused: The embedder of the plugin cannot be created.
        UnknownLocalModel: The settings name no pinned local model, or a precision that it lacks.
        LocalModelRefused: The directory of CARREL_EMBEDDING_LOCAL cannot be used.
        EmbeddedModelMissing: The packages of local models are not installed.
        WeightsMissing: The weights of a configured local model are missing.
        WeightsDamaged: The weights of a configured local model cannot be read.
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
            max_tokens=settings.max_tokens or ENDPOINT_MAX_TOKENS,
            query_prefix=settings.query_prefix or "",
            document_prefix=settings.document_prefix or "",
            timeout_seconds=settings.timeout_seconds,
            format_setting_name=settings.format_setting_name,
            image_format=settings.images,
            rate_limiter=_create_rate_limiter(settings, settings.base_url, rate_limit_store),
        )
    try:
        from app.inference.embedding.local_loader import get_identity, load_local_embedder
    except ImportError as exc:
        raise EmbeddedModelMissing from exc
    if isinstance(settings, EmbeddingSettings) and settings.local is not None:
        return _load_directory_embedder(settings.local, settings, bulk_threads)
    model = _get_local_model(settings)
    identity = get_identity(
        model,
        precision=settings.precision,
        query_prefix=settings.query_prefix,
        document_prefix=settings.document_prefix,
    )
    directory = require_weights(model, weights_dir, get_user_cache_dir())
    return load_local_embedder(directory, identity, bulk_threads=bulk_threads)


def _load_directory_embedder(location: Path, settings: EmbeddingSettings, bulk_threads: int) -> Embedder:
    from app.inference.embedding.model_directory import load_directory_embedder

    try:
        return load_directory_embedder(location, settings, bulk_threads=bulk_threads)
    except LocalModelRefused as exc:
        raise LocalModelRefused(f"CARREL_EMBEDDING_LOCAL: {exc.message}") from exc


def _get_local_model(settings: EmbeddingSettings | AdditionalEmbeddingModel) -> LocalModel:
    """Return the pinned local model of the settings. Raises UnknownLocalModel."""
    model = LOCAL_MODELS.get(settings.model)
    setting = settings.format_setting_name("model")
    if model is None:
        raise UnknownLocalModel(
            f"{setting} without an endpoint is one of {', '.join(LOCAL_MODELS)}, not {settings.model!r}."
        )
    if settings.precision is not None and settings.precision not in model.precisions:
        precisions = " or ".join(model.precisions)
        raise UnknownLocalModel(
            f"{settings.format_setting_name('precision')} is {settings.precision}, but {model.name} has {precisions}."
        )
    return model


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
