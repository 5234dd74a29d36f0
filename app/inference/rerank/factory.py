"""Create the configured reranker: the reranker of a plugin, or of an endpoint."""

from app.inference.rerank import Reranker
from app.settings.rerank import RerankSettings

# Rerankers are imported only when they are chosen, because an unused client would slow down the start.


def create_reranker(settings: RerankSettings) -> Reranker | None:
    """Create the reranker of the configured plugin, otherwise of the configured endpoint. The call blocks.

    Args:
        settings: Settings of the reranker.

    Returns:
        The reranker, or None if none is configured.

    Raises:
        RerankerMissing: No installed plugin has the configured reranker.
        RerankerRefused: The reranker of the plugin cannot be created.
    """
    if settings.provider is not None:
        from app.inference.rerank.plugin_reranker import create_plugin_reranker

        return create_plugin_reranker(settings.provider, settings)
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
