"""Create the configured reranker: the reranker of a plugin, of a local directory, or of an endpoint."""

from pathlib import Path

from app.errors import AppError
from app.inference.onnx_directory import LocalModelRefused
from app.inference.rerank import Reranker
from app.settings.rerank import RerankSettings

# Rerankers are imported only when they are chosen, because an unused client would slow down the start.


class RerankerPackagesMissing(AppError):
    """The reranker of CARREL_RERANK_LOCAL needs `pip install 'carrel[embedded]'`."""

    code = "reranker_packages_missing"


def create_reranker(settings: RerankSettings) -> Reranker | None:
    """Create the reranker of the configured plugin, directory or endpoint. The call blocks.

    Args:
        settings: Settings of the reranker.

    Returns:
        The reranker, or None if none is configured.

    Raises:
        RerankerMissing: No installed plugin has the configured reranker.
        RerankerRefused: The reranker of the plugin cannot be created.
        RerankerPackagesMissing: The packages of the local reranker are not installed.
        LocalModelRefused: The local directory or its model is not usable.
    """
    if settings.provider is not None:
        from app.inference.rerank.plugin_reranker import create_plugin_reranker

        return create_plugin_reranker(settings.provider, settings)
    if settings.local is not None:
        return _load_local_reranker(settings.local, settings)
    if settings.url is None:
        return None
    from app.inference.rerank.dialects import DIALECTS
    from app.inference.rerank.http_reranker import HttpReranker

    return HttpReranker(
        settings.url,
        settings.api_key.get_secret_value() if settings.api_key else None,
        DIALECTS[settings.api],
        model=settings.model,
        max_documents=settings.max_documents,
        max_characters=settings.max_characters,
    )


def _load_local_reranker(location: Path, settings: RerankSettings) -> Reranker:
    try:
        from app.inference.rerank.local_reranker import LocalReranker
    except ImportError as exc:
        raise RerankerPackagesMissing from exc
    try:
        return LocalReranker.load(location, max_tokens=settings.max_tokens, max_characters=settings.max_characters)
    except LocalModelRefused as exc:
        raise LocalModelRefused(f"CARREL_RERANK_LOCAL: {exc.message}") from exc
