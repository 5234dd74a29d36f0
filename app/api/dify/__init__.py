"""Dify's external knowledge API at ``/dify/retrieval``."""

from app.api.dify.retrieval import router

__all__ = ["router"]
