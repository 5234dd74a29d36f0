"""Opens the reranker that is configured, if one is: a plugin's or an endpoint."""

from app.inference.rerank import Reranker
from app.settings.rerank import RerankSettings

# Each is imported where it is chosen: without a reranker its client costs nothing at the start.


def create_reranker(settings: RerankSettings) -> Reranker | None:
    """Create the plugin's reranker if one is named, else the endpoint's; blocking.

    Raises RerankerMissing, RerankerRefused.
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
