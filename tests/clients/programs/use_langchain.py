"""Retrieval through LangChain, as in a chain; runs in a Python environment with LangChain."""

import asyncio
import json
import sys

from carrel_client import AsyncClient, Client
from carrel_client.langchain import CarrelRetriever
from langchain_core.runnables import RunnableLambda


async def ask(url: str, key: str, query: str, kb: str = "default") -> None:
    with Client(url, key) as client:
        retriever = CarrelRetriever(client=client, knowledge_bases=[kb], options={"top_k": 2})
        chain = retriever | RunnableLambda(lambda found: [[one.id, one.page_content, one.metadata] for one in found])
        plain = chain.invoke(query)
        in_thread = await chain.ainvoke(query)
        async with AsyncClient(url, key) as other:
            both = CarrelRetriever(client=client, async_client=other, options={"top_k": 2, "filter": {"year": 2026}})
            filtered = [one.page_content for one in await both.ainvoke(query)]
    print(json.dumps({"plain": plain, "same": plain == in_thread, "filtered": filtered}))


asyncio.run(ask(*sys.argv[1:]))
