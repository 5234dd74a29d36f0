"""Capabilities of the service, collected from its registries."""

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources
from app.api.v1.knowledge_bases.knowledge_base_schemas import ChunkingRequest
from app.api.v1.search.search_queries import MAX_IMAGE_BYTES
from app.bootstrap import Resources
from app.graph.serializers import load_serializers
from app.inference.embedding import Embedder
from app.inference.embedding.search_defaults import get_search_defaults
from app.ingestion.chunkers import DEFAULT_CHUNKER, ChunkerSpec
from app.ingestion.chunkers.registry import build_request_options, load_chunkers
from app.ingestion.parsers.registry import load_installed_parsers
from app.ingestion.parsers.toolkit.tessdata import find_language_data
from app.knowledge_bases.index_settings import resolve_chunking
from app.knowledge_bases.types import RequestedChunking
from app.lexical.analyzers import list_languages
from app.lexical.languages import AUTO
from app.retrieval.strategies import DEFAULT_STRATEGY, load_strategies
from app.retrieval.transformers import DEFAULT_TRANSFORMER, load_transformers

router = APIRouter(tags=["capabilities"], route_class=AuthenticatedRoute)


class ParserOut(BaseModel):
    """Format of files that the service parses."""

    media_type: str = Field(description="Media type.", examples=["application/pdf"])
    extensions: list[str] = Field(description="Extensions of file names, for a file picker.", examples=[[".pdf"]])


class ComponentOut(BaseModel):
    """Chunker, strategy or transformer."""

    name: str = Field(description="Name in requests.", examples=["hybrid"])
    description: str = Field(description="One sentence about it.", examples=["Dense and lexical retriever, fused."])
    options: dict[str, Any] = Field(
        description="JSON schema of the options, with defaults.", examples=[{"type": "object", "properties": {}}]
    )
    default: bool = Field(description="Whether it is used if a request names none.", examples=[True])


class SerializerOut(BaseModel):
    """Serializer of the graph of a search's results."""

    name: str = Field(description="Name for the option `serializer`.", examples=["text"])
    description: str = Field(
        description="What it writes.",
        examples=["A line for each relation, and for each name that several results share."],
    )


class ExtractorOut(BaseModel):
    """Extractor of a plugin."""

    name: str = Field(description="Name for `graph.extractors` of a knowledge base.", examples=["spacy"])
    version: str = Field(
        description="Version of its rules or its model. Another version asks for a reindex.",
        examples=["1-en_core_web_sm"],
    )


class TransformerOut(ComponentOut):
    """Transformer."""

    phase: Literal["rewrite", "fan_out"] = Field(
        description="`rewrite`: changes the queries. `fan_out`: adds queries, after all transformers that rewrite.",
        examples=["rewrite"],
    )


class SearchDefaultsOut(BaseModel):
    """Defaults of searches and of new knowledge bases with an embedding model."""

    dense_weight: float = Field(
        description="Default of `strategy_options.dense_weight`: the weight of the dense retriever in the fusion.",
        examples=[0.6],
    )
    score_threshold: float | None = Field(
        description="Value of `score_threshold` `auto`: a minimum cosine similarity. Null if the "
        "model has no calibrated threshold.",
        examples=[0.6],
    )
    max_tokens: int = Field(description="Default of `chunking.max_tokens` of a new knowledge base.", examples=[170])


class EmbeddingModelOut(BaseModel):
    """Embedding model for knowledge bases."""

    model: str = Field(description="Name of the model.", examples=["bge-small-en-v1.5"])
    dimensions: int = Field(description="Number of dimensions of the vectors.", examples=[384])
    max_tokens: int = Field(description="Maximum number of tokens of a text.", examples=[512])
    multimodal: bool = Field(description="Whether the model embeds images too.", examples=[False])
    default: bool = Field(description="Whether new knowledge bases use it by default.", examples=[True])
    search_defaults: SearchDefaultsOut = Field(description="Defaults that depend on the model.")


class OcrOut(BaseModel):
    """OCR: recognition of text in images."""

    languages: list[str] = Field(
        description="Languages that OCR reads, as codes of Tesseract; empty without OCR.", examples=[["eng"]]
    )
    missing: list[str] = Field(description="Languages of the settings whose data is not installed.", examples=[[]])


class CapabilitiesOut(BaseModel):
    """Capabilities of the service."""

    parsers: list[ParserOut] = Field(description="Formats of files that can be uploaded.")
    ocr: OcrOut = Field(description="OCR of images and scans.")
    chunkers: list[ComponentOut] = Field(description="Chunkers for `chunking.strategy`.")
    strategies: list[ComponentOut] = Field(description="Strategies for searches.")
    transformers: list[TransformerOut] = Field(description="Transformers for searches.")
    extractors: list[ExtractorOut] = Field(
        description="Installed extractors of plugins, for `graph.extractors` of a knowledge base. The extraction "
        "without a model is always used."
    )
    graph_serializers: list[SerializerOut] = Field(
        description="Serializers for the option `serializer` of the strategy `graph_rag`."
    )
    embedding_models: list[EmbeddingModelOut] = Field(description="Embedding models for knowledge bases.")
    models: dict[str, bool] = Field(
        description="Whether a model is configured: `chat`, `vision`, `rerank`.",
        examples=[{"chat": True, "vision": False, "rerank": False}],
    )
    reranker: str | None = Field(
        description="Name of the plugin, of the configured model of the endpoint, or of the local model. A local model "
        "has the name of its directory and the first 12 digits of its hash. Null without a reranker or a name.",
        examples=["ms-marco-MiniLM-L6-v2@0123456789ab"],
    )
    languages: list[str] = Field(
        description="Languages of the lexical analysis for `language`.", examples=[["auto", "english", "german"]]
    )
    limits: dict[str, int] = Field(
        description="Limits of the service: `upload_bytes`, `pages` and `characters` of a document, `top_k`, "
        "`queries`, `query_image_bytes` and `messages` of a search.",
        examples=[
            {
                "upload_bytes": 104857600,
                "pages": 5000,
                "characters": 20000000,
                "top_k": 500,
                "queries": 16,
                "query_image_bytes": 8388608,
                "messages": 20,
            }
        ],
    )


def _build_chunking_schema(chunker: ChunkerSpec[Any]) -> dict[str, Any]:
    schema = ChunkingRequest.model_json_schema()
    del schema["properties"]["strategy"]
    schema["properties"]["options"] = build_request_options(chunker.options).model_json_schema()
    return schema


def _list_chunkers() -> list[ComponentOut]:
    return [
        ComponentOut(
            name=chunker.name,
            description=chunker.description,
            options=_build_chunking_schema(chunker),
            default=chunker.name == DEFAULT_CHUNKER,
        )
        for chunker in load_chunkers().values()
    ]


def _list_strategies() -> list[ComponentOut]:
    return [
        ComponentOut(
            name=strategy.name,
            description=strategy.description,
            options=strategy.options.model_json_schema(),
            default=strategy.name == DEFAULT_STRATEGY,
        )
        for strategy in load_strategies().values()
    ]


def _list_transformers() -> list[TransformerOut]:
    return [
        TransformerOut(
            name=transformer.name,
            description=transformer.description,
            options=transformer.options.model_json_schema(),
            default=transformer.name == DEFAULT_TRANSFORMER,
            phase="fan_out" if transformer.fans_out else "rewrite",
        )
        for transformer in load_transformers().values()
    ]


def _get_reranker_name(resources: Resources) -> str | None:
    """Return the name of the reranker, but never the host of an endpoint."""
    if resources.settings.rerank.url is not None:
        return resources.settings.rerank.model
    return None if resources.reranker is None else resources.reranker.name


def _build_search_defaults(embedder: Embedder) -> SearchDefaultsOut:
    defaults = get_search_defaults(embedder.identity.model)
    return SearchDefaultsOut(
        dense_weight=defaults.dense_weight,
        score_threshold=defaults.score_threshold,
        max_tokens=resolve_chunking(RequestedChunking(), embedder).max_tokens,
    )


@router.get("/capabilities", summary="Get the capabilities", response_model=CapabilitiesOut)
async def get_capabilities(resources: CurrentResources, _: CurrentReader) -> dict[str, Any]:
    """Return parsers, chunkers, strategies, transformers, models and limits of this service."""
    settings = resources.settings
    ocr = find_language_data(settings.parser.ocr_languages, settings.parser.tessdata_dir)
    return {
        "parsers": [
            {"media_type": spec.media_type, "extensions": [f".{name}" for name in spec.extensions]}
            for spec in load_installed_parsers().values()
        ],
        "ocr": {"languages": ocr.languages, "missing": ocr.missing},
        "chunkers": _list_chunkers(),
        "strategies": _list_strategies(),
        "transformers": _list_transformers(),
        "extractors": [
            {"name": name, "version": version} for name, version in sorted(resources.extractors.versions.items())
        ],
        "graph_serializers": [
            {"name": serializer.name, "description": serializer.description}
            for serializer in load_serializers().values()
        ],
        "embedding_models": [
            {
                "model": embedder.identity.model,
                "dimensions": embedder.identity.dimensions,
                "max_tokens": embedder.max_tokens,
                "multimodal": embedder.image_embedder is not None,
                "default": embedder is resources.embedders.default,
                "search_defaults": _build_search_defaults(embedder),
            }
            for embedder in resources.embedders.all
        ],
        "models": {
            "chat": settings.models.chat_model is not None,
            "vision": settings.models.vision_model is not None,
            "rerank": settings.rerank.is_configured,
        },
        "reranker": _get_reranker_name(resources),
        "languages": [AUTO, *list_languages()],
        "limits": {
            "upload_bytes": settings.server.max_upload_bytes,
            "pages": settings.parser.max_pages,
            "characters": settings.parser.max_characters,
            "top_k": 500,
            "queries": 16,
            "query_image_bytes": MAX_IMAGE_BYTES,
            "messages": 20,
        },
    }
