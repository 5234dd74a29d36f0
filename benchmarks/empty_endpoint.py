"""Empty endpoint: uvicorn alone on the event loop of the service, as the baseline of the cost of a request.

Started as a program, the module prints its port and serves until its standard input ends.
"""

import asyncio
import socket
import sys

import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

REPLY_BODY = b"{}"
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


async def answer_empty(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Reply with an empty JSON object."""
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": REPLY_BODY})


async def serve(app: ASGIApp, *, lifespan: bool = False) -> None:
    """Print the port and serve an application until the standard input ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on" if lifespan else "off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        print(listening.getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    uvloop.run(serve(answer_empty))
