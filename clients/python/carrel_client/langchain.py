"""Retriever for LangChain. It requires the package langchain-core, an optional dependency of this client."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from carrel_client.async_client import AsyncClient
from carrel_client.result_metadata import build_metadata
from carrel_client.sync_client import Client
from carrel_client.types import Result


class CarrelRetriever(BaseRetriever):
    """LangChain retriever that returns the best passages as documents.

    ``options`` are the options of ``Client.search``. ``ainvoke`` uses ``async_client`` if it is given, and otherwise
    ``client`` in a thread. The metadata of a document are the metadata of the passage and fields of Carrel, such as
    ``citation``, ``source``, ``page`` and ``score``.
    """

    client: Client
    async_client: AsyncClient | None = None
    knowledge_bases: Sequence[str] | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        reply = self.client.search(query, knowledge_bases=self.knowledge_bases, **self.options)  # type: ignore[misc]
        return [_to_document(result) for result in reply["results"]]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.async_client is None:
            in_thread: list[Document] = await super()._aget_relevant_documents(query, run_manager=run_manager)
            return in_thread
        reply = await self.async_client.search(query, knowledge_bases=self.knowledge_bases, **self.options)  # type: ignore[misc]
        return [_to_document(result) for result in reply["results"]]


def _to_document(result: Result) -> Document:
    return Document(id=result["chunk_id"], page_content=result["text"], metadata=build_metadata(result))
