"""The ASGI application without resources: for its routes and for its OpenAPI document. It never starts."""

from contextlib import AbstractAsyncContextManager
from copy import deepcopy
from functools import cache
from typing import Any

from fastapi import FastAPI

from app.bootstrap import Resources
from app.main import create_app


def create_unopened_app() -> FastAPI:
    """Return an application that has all routes, and no database, object store or models."""
    return create_app(_refuse_to_open)


def build_openapi_document() -> dict[str, Any]:
    """Return a new copy of the OpenAPI document. The document itself is built once in a process."""
    return deepcopy(_build_document())


@cache
def _build_document() -> dict[str, Any]:
    return create_unopened_app().openapi()


def _refuse_to_open() -> AbstractAsyncContextManager[Resources]:
    raise AssertionError("the routes and the document need no resources")
