"""What this server can do, made from the registries."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from app.api.dependencies import CurrentReader, CurrentResources, GuardedRoute
from app.api.v1.knowledge_bases import ChunkingIn
from app.api.v1.search_queries import MAX_PICTURE_BYTES
from app.ingestion.chunkers import DEFAULT_CHUNKER, ChunkerSpec
from app.ingestion.chunkers.installed import installed_chunkers
from app.ingestion.parsers.installed import installed_parsers
from app.ingestion.parsers.tessdata import find_language_data
from app.lexical.analyser import languages
from app.lexical.languages import AUTO
from app.retrieval.strategies import DEFAULT_STRATEGY, installed_strategies
from app.retrieval.transformers import DEFAULT_TRANSFORMER, installed_transformers

router = APIRouter(tags=["capabilities"], route_class=GuardedRoute)


class ParserOut(BaseModel):
    """A kind of file, and the extensions that a file picker should show."""

    media_type: str
    extensions: list[str]


class NamedOut(BaseModel):
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
    chunkers: list[NamedOut]
    strategies: list[NamedOut]
    transformers: list[NamedOut]
    embedding_models: list[EmbeddingModelOut]
    models: dict[str, bool]
    languages: list[str]
    limits: dict[str, int]


def _chunking_options(chunker: ChunkerSpec[Any]) -> dict[str, Any]:
    schema = ChunkingIn.model_json_schema()
    del schema["properties"]["strategy"]
    schema["properties"]["options"] = chunker.options.model_json_schema()
    return schema


def _chunkers() -> list[NamedOut]:
    return [
        NamedOut(
            name=one.name,
            description=one.description,
            options=_chunking_options(one),
            default=one.name == DEFAULT_CHUNKER,
        )
        for one in installed_chunkers().values()
    ]


def _strategies() -> list[NamedOut]:
    return [
        NamedOut(
            name=one.name,
            description=one.description,
            options=one.options.model_json_schema(),
            default=one.name == DEFAULT_STRATEGY,
        )
        for one in installed_strategies().values()
    ]


def _transformers() -> list[NamedOut]:
    return [
        NamedOut(
            name=one.name,
            description=one.description,
            options=one.options.model_json_schema(),
            default=one.name == DEFAULT_TRANSFORMER,
        )
        for one in installed_transformers().values()
    ]


@router.get("/capabilities", response_model=CapabilitiesOut)
async def capabilities(resources: CurrentResources, _: CurrentReader) -> dict[str, Any]:
    """Parsers, chunkers, strategies, models and limits of this server."""
    settings = resources.settings
    ocr = find_language_data(settings.parser.ocr_languages, settings.parser.tessdata_dir)
    return {
        "parsers": [
            {"media_type": spec.media_type, "extensions": [f".{name}" for name in spec.extensions]}
            for spec in installed_parsers().values()
        ],
        "ocr": {"languages": ocr.languages, "missing": ocr.missing},
        "chunkers": _chunkers(),
        "strategies": _strategies(),
        "transformers": _transformers(),
        "embedding_models": [
            {
                "model": embedder.identity.model,
                "dimensions": embedder.identity.dimensions,
                "max_tokens": embedder.max_tokens,
                "multimodal": embedder.pictures is not None,
                "default": embedder is resources.embedders.default,
            }
            for embedder in resources.embedders.all
        ],
        "models": {
            "chat": settings.models.chat_model is not None,
            "vision": settings.models.vision_model is not None,
            "rerank": settings.rerank.configured,
        },
        "languages": [AUTO, *languages()],
        "limits": {
            "upload_bytes": settings.server.max_upload_bytes,
            "pages": settings.parser.max_pages,
            "characters": settings.parser.max_characters,
            "top_k": 500,
            "queries": 16,
            "query_image_bytes": MAX_PICTURE_BYTES,
            "messages": 20,
        },
    }
