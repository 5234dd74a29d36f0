"""Errors in the form of Dify: ``error_code`` and ``error_msg``."""

from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from app.api.dependencies import AuthenticatedRoute
from app.api.http.problems import format_validation_errors, get_http_status
from app.errors import AppError, ForbiddenError, TooManyRequestsError, UnauthorizedError, UnavailableError
from app.knowledge_bases.types import KnowledgeBaseNotFound
from app.logging import get_logger

logger = get_logger(__name__)
MISSING_KEY = 1001
INVALID_KEY = 1002
KNOWLEDGE_NOT_FOUND = 2001


class DifyErrorOut(BaseModel):
    """Error in the form of Dify."""

    error_code: int = Field(
        description="Code: 1001 no key, 1002 invalid key, 2001 no such knowledge base; else the HTTP status.",
        examples=[2001],
    )
    error_msg: str = Field(description="What is wrong, for people.", examples=["The knowledge does not exist."])


class DifyRoute(AuthenticatedRoute):
    """Route that responds to errors in the form of Dify. It authenticates the caller before it reads the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route, with errors in the form of Dify.

        Returns:
            The handler. It raises internal errors, so that the last error handler logs them.
        """
        handle = super().get_route_handler()

        async def handle_with_dify_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as exc:
                return _create_error_response(422, 422, format_validation_errors(exc.errors())[0])
            except HTTPException as exc:
                # FastAPI uses 400 for a JSON body that is nested too deeply or has too long a number.
                status = 422 if exc.status_code == 400 else exc.status_code
                return _create_error_response(status, status, str(exc.detail), exc.headers)
            except AppError as exc:
                if get_http_status(exc) == 500:
                    raise
                return _to_error_response(request, exc)

        return handle_with_dify_errors


def _to_error_response(request: Request, error: AppError) -> Response:
    if isinstance(error, UnauthorizedError | ForbiddenError):
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        has_key = scheme.lower() == "bearer" and key.strip()
        return _create_error_response(403, INVALID_KEY if has_key else MISSING_KEY, error.message)
    if isinstance(error, KnowledgeBaseNotFound):
        return _create_error_response(404, KNOWLEDGE_NOT_FOUND, "The knowledge does not exist.")
    status, headers = get_http_status(error), {}
    if isinstance(error, TooManyRequestsError | UnavailableError):
        headers["Retry-After"] = str(ceil(error.retry_after))
    if isinstance(error, UnavailableError):
        logger.warning("dify.unavailable", code=error.code, error=error)
    return _create_error_response(status, status, error.message, headers)


def _create_error_response(status: int, code: int, message: str, headers: Any = None) -> Response:
    text = message.encode("utf-8", "replace").decode()
    return JSONResponse(DifyErrorOut(error_code=code, error_msg=text).model_dump(), status, dict(headers or {}))
