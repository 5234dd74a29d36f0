"""OpenAI's files and vector stores, over the same use cases as the native door."""

from fastapi import APIRouter

from app.api.openai import file_batches, files, search, store_files, vector_stores
from app.api.openai.envelope import PREFIX, create_error_response

__all__ = ["PREFIX", "create_error_response", "router"]

router = APIRouter(prefix=PREFIX)
for module in (search, file_batches, store_files, vector_stores, files):
    router.include_router(module.router)
