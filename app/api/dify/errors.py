"""Errors as Dify knows them: a status, and ``error_code`` with ``error_msg``."""

from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from app.api.dependencies import GuardedRoute
from app.api.problems import faults, status_of
from app.errors import AppError, Forbidden, TooMany, Unauthorized, Unavailable
from app.knowledge_bases.types import KnowledgeBaseNotFound
from app.logging import get_logger

logger = get_logger(__name__)
NO_KEY = 1001
WRONG_KEY = 1002
NO_KNOWLEDGE = 2001


class DifyError(BaseModel):
    """1001: no Bearer key. 1002: one that is not valid. 2001: no such knowledge. Else the status."""

    error_code: int
    error_msg: str


class DifyRoute(GuardedRoute):
    """Answers every error of a route as Dify expects it; the key is checked before the body is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What is nobody's fault but ours goes on to the last handler."""
        handle = super().get_route_handler()

        async def spoken(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as exc:
                return _refusal(422, 422, faults(exc.errors())[0])
            except HTTPException as exc:
                # 400 is the framework's for a JSON body that is too deep, or holds too long a number, to be read.
                status = 422 if exc.status_code == 400 else exc.status_code
                return _refusal(status, status, str(exc.detail), exc.headers)
            except AppError as exc:
                if status_of(exc) == 500:
                    raise
                return _refused(request, exc)

        return spoken


def _refused(request: Request, error: AppError) -> Response:
    if isinstance(error, Unauthorized | Forbidden):
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        named = scheme.lower() == "bearer" and key.strip()
        return _refusal(403, WRONG_KEY if named else NO_KEY, error.message)
    if isinstance(error, KnowledgeBaseNotFound):
        return _refusal(404, NO_KNOWLEDGE, "The knowledge does not exist.")
    status, headers = status_of(error), {}
    if isinstance(error, TooMany | Unavailable):
        headers["Retry-After"] = str(ceil(error.retry_after))
    if isinstance(error, Unavailable):
        logger.warning("dify.unavailable", code=error.code, error=error)
    return _refusal(status, status, error.message, headers)


def _refusal(status: int, code: int, message: str, headers: Any = None) -> Response:
    text = message.encode("utf-8", "replace").decode()
    return JSONResponse(DifyError(error_code=code, error_msg=text).model_dump(), status, dict(headers or {}))
