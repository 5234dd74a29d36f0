"""Retriever for LlamaIndex. It requires the package llama-index-core, an optional dependency of this client."""

from collections.abc import Sequence
from typing import Unpack

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from carrel_client.async_client import AsyncClient
from carrel_client.result_metadata import build_metadata
from carrel_client.sync_client import Client
from carrel_client.types import Result, SearchOptions


class CarrelRetriever(BaseRetriever):
    """LlamaIndex retriever that returns the best passages as nodes with scores.

    ``options`` are the options of ``Client.search``. ``aretrieve`` uses ``async_client`` if it is given, and otherwise
    ``client``. The metadata of a node are the metadata of the passage and fields of Carrel, such as ``citation``,
    ``source`` and ``page``. A model sees only the citation.
    """

    def __init__(
        self,
        client: Client,
        *,
        async_client: AsyncClient | None = None,
        knowledge_bases: Sequence[str] | None = None,
        **options: Unpack[SearchOptions],
    ) -> None:
        super().__init__()
        self._client, self._async_client = client, async_client
        self._knowledge_bases, self._options = knowledge_bases, options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        reply = self._client.search(query_bundle.query_str, knowledge_bases=self._knowledge_bases, **self._options)
        return [_to_node(result) for result in reply["results"]]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._async_client is None:
            return self._retrieve(query_bundle)
        reply = await self._async_client.search(
            query_bundle.query_str, knowledge_bases=self._knowledge_bases, **self._options
        )
        return [_to_node(result) for result in reply["results"]]


def _to_node(result: Result) -> NodeWithScore:
    metadata = build_metadata(result)
    hidden_keys = [name for name in metadata if name != "citation"]
    # A result of an HTTP source has no ID, so the node generates one.
    node_id = {} if result["chunk_id"] is None else {"id_": result["chunk_id"]}
    node = TextNode(
        **node_id,
        text=result["text"],
        metadata=metadata,
        excluded_llm_metadata_keys=hidden_keys,
        excluded_embed_metadata_keys=list(metadata),
    )
    return NodeWithScore(node=node, score=result["score"])
