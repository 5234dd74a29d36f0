"""The OpenAI API for files and vector stores. It calls the same services as the native API."""

from fastapi import APIRouter

from app.api.openai import files, vector_store_file_batches, vector_store_files, vector_store_search, vector_stores
from app.api.openai.errors import ERROR_SCHEMA, PREFIX, create_error_response

__all__ = ["ERROR_SCHEMA", "PREFIX", "create_error_response", "router"]

router = APIRouter(prefix=PREFIX)
for module in (vector_store_search, vector_store_file_batches, vector_store_files, vector_stores, files):
    router.include_router(module.router)
