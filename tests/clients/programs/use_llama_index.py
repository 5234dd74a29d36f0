"""Retrieval through LlamaIndex; runs in a Python environment with LlamaIndex."""

import asyncio
import json
import sys

from carrel_client import AsyncClient, Client
from carrel_client.llama_index import CarrelRetriever
from llama_index.core.schema import MetadataMode


async def ask(url: str, key: str, query: str, kb: str = "default") -> None:
    with Client(url, key) as client:
        retriever = CarrelRetriever(client, knowledge_bases=[kb], top_k=2)
        found = retriever.retrieve(query)
        plain = [[one.node.node_id, one.node.text, one.node.metadata, one.score] for one in found]
        shown = found[0].node.get_content(MetadataMode.LLM)
        in_thread = [one.node.node_id for one in await retriever.aretrieve(query)]
        async with AsyncClient(url, key) as other:
            both = CarrelRetriever(client, async_client=other, top_k=2, filter={"year": 2026})
            filtered = [one.node.text for one in await both.aretrieve(query)]
    same = in_thread == [one[0] for one in plain]
    print(json.dumps({"plain": plain, "same": same, "filtered": filtered, "shown": shown}))


asyncio.run(ask(*sys.argv[1:]))
