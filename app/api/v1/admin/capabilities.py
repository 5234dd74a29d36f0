"""What this server can do, made from the registries."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources
from app.api.v1.knowledge_bases.knowledge_bases import ChunkingRequest
from app.api.v1.search.search_queries import MAX_IMAGE_BYTES
from app.ingestion.chunkers import DEFAULT_CHUNKER, ChunkerSpec
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.parsers.registry import load_installed_parsers
from app.ingestion.parsers.toolkit.tessdata import find_language_data
from app.lexical.analyzer import list_languages
from app.lexical.languages import AUTO
from app.retrieval.strategies import DEFAULT_STRATEGY, load_strategies
from app.retrieval.transformers import DEFAULT_TRANSFORMER, load_transformers

router = APIRouter(tags=["capabilities"], route_class=AuthenticatedRoute)


class ParserOut(BaseModel):
    """A kind of file, and the extensions that a file picker should show."""

    media_type: str
    extensions: list[str]


class ComponentOut(BaseModel):
    """Something that is chosen by name; ``options`` is a JSON schema with defaults."""

    name: str
    description: str
    options: dict[str, Any]
    default: bool


class EmbeddingModelOut(BaseModel):
    """An embedding model that knowledge bases may use."""

    model: str
    dimensions: int
    max_tokens: int
    multimodal: bool
    default: bool


class OcrOut(BaseModel):
    """The languages that text in pictures is read in, none where OCR is not installed; ``missing`` ones are set up."""

    languages: list[str]
    missing: list[str]


class CapabilitiesOut(BaseModel):
    """Everything a client needs to know before it sends anything."""

    parsers: list[ParserOut]
    ocr: OcrOut
    chunkers: list[ComponentOut]
    strategies: list[ComponentOut]
    transformers: list[ComponentOut]
    embedding_models: list[EmbeddingModelOut]
    models: dict[str, bool]
    languages: list[str]
    limits: dict[str, int]


def _build_chunking_schema(chunker: ChunkerSpec[Any]) -> dict[str, Any]:
    schema = ChunkingRequest.model_json_schema()
    del schema["properties"]["strategy"]
    schema["properties"]["options"] = chunker.options.model_json_schema()
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


def _list_transformers() -> list[ComponentOut]:
    return [
        ComponentOut(
            name=transformer.name,
            description=transformer.description,
            options=transformer.options.model_json_schema(),
            default=transformer.name == DEFAULT_TRANSFORMER,
        )
        for transformer in load_transformers().values()
    ]


@router.get("/capabilities", response_model=CapabilitiesOut)
async def get_capabilities(resources: CurrentResources, _: CurrentReader) -> dict[str, Any]:
    """Parsers, chunkers, strategies, models and limits of this server."""
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
        "embedding_models": [
            {
                "model": embedder.identity.model,
                "dimensions": embedder.identity.dimensions,
                "max_tokens": embedder.max_tokens,
                "multimodal": embedder.image_embedder is not None,
                "default": embedder is resources.embedders.default,
            }
            for embedder in resources.embedders.all
        ],
        "models": {
            "chat": settings.models.chat_model is not None,
            "vision": settings.models.vision_model is not None,
            "rerank": settings.rerank.is_configured,
        },
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
