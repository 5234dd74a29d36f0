"""The framework alone, on the service's event loop: an endpoint that does nothing, as the unit of what a machine takes.

Run as a module it prints its port and serves until its standard input ends.
"""

import asyncio
import socket
import sys

import uvicorn
import uvloop
from fastapi import FastAPI

app = FastAPI()


@app.get("/empty")
async def empty() -> dict[str, str]:
    """Nothing."""
    return {}


async def serve(listening: socket.socket) -> None:
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    print(listening.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as own:
        uvloop.run(serve(own))
