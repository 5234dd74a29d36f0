"""``carrel serve``: the whole service, or only its API."""

import asyncio
import gc
import os
import shlex
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from fastapi import FastAPI

from app.bootstrap import Resources
from app.cli.console_link import format_console_link
from app.cli.runtime_state import (
    Credentials,
    Runtime,
    delete_runtime,
    find_runtime,
    load_operator_key,
    prepare_data_dir,
    read_credentials,
    write_credentials,
    write_runtime,
)
from app.cli.slow_client_protection import HttpServer
from app.cli.worker_process import run_worker_process
from app.db.migrate import migrate_database
from app.embedded_postgres import EmbeddedPostgres
from app.errors import AppError
from app.logging import configure_logging, get_logger
from app.main import create_app
from app.sandbox.kernel import protect_memory
from app.sandbox.process import find_confinement
from app.settings import ServerSettings, Settings, load_settings

logger = get_logger(__name__)

DATABASE_CHECK_INTERVAL_SECONDS = 0.5
# Shell command that reads the stored API key.
READ_KEY_COMMAND = r"""sed -n 's/.*"api_key": "\([^"]*\)".*/\1/p'"""


def serve(
    host: Annotated[str | None, typer.Option(help="IP address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 selects a free port. [default: 8000]")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of the service's files. [default: .carrel]")] = None,
    api_only: Annotated[
        bool, typer.Option("--api-only", help="Start no worker; run `carrel worker` separately.")
    ] = False,
) -> None:
    """Run the service: the API, a worker and, unless CARREL_DATABASE_URL is set, an embedded Postgres.

    The first start with the embedded Postgres creates a tenant and prints its API key. Options override the variables
    CARREL_HOST, CARREL_PORT and CARREL_DATA_DIR. .env.example lists all settings. Ctrl-C stops the service.

    Example: carrel serve

    Example: carrel serve --port 9000 --data-dir /srv/carrel

    Example: CARREL_DATABASE_URL=… carrel serve --api-only --host 0.0.0.0
    """
    options: dict[str, Any] = {"CARREL_HOST": host, "CARREL_PORT": port, "CARREL_DATA_DIR": data_dir}
    settings = load_settings(server={name: value for name, value in options.items() if value is not None})
    configure_logging(settings.server.log_level)
    protect_memory()
    # Until the server handles signals, SIGTERM has the effect of Ctrl-C, so that all resources are closed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), _open_database(settings) as database, _open_listener(settings) as listener:
        uvloop.run(_serve(settings, database, listener, api_only=api_only))


@dataclass(frozen=True, slots=True)
class _ServiceDatabase:
    """Database of the service. ``note`` describes it in the output; ``embedded`` is set if this process runs it."""

    runtime: Runtime
    note: str
    embedded: EmbeddedPostgres | None = None


@contextmanager
def _open_database(settings: Settings) -> Iterator[_ServiceDatabase]:
    """Open the configured database, or an embedded Postgres that ends with this process."""
    data_dir = settings.server.data_dir
    if settings.database.url is not None:
        prepare_data_dir(data_dir)
        yield _ServiceDatabase(find_runtime(settings), "configured by CARREL_DATABASE_URL")
        return
    with EmbeddedPostgres(data_dir) as postgres:
        urls = postgres.ensure_database()
        asyncio.run(migrate_database(urls.owner, urls.app))
        runtime = Runtime(urls.app, urls.owner)
        write_runtime(data_dir, runtime)
        try:
            yield _ServiceDatabase(runtime, f"embedded Postgres in {postgres.directory}", postgres)
        finally:
            delete_runtime(data_dir)


@contextmanager
def _open_listener(settings: Settings) -> Iterator[socket.socket]:
    """Listen on the port before the service starts. A port in use is then reported in one line, and early clients
    wait.
    """
    server = settings.server
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    # Without an explicit protocol asyncio does not set TCP_NODELAY, and responses wait 40 ms for an acknowledgement.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((server.host, server.port))
            listener.listen(2048)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            address = f"{server.host} port {server.port}"
            raise AppError(f"cannot listen on {address}: {reason}; choose another with --port") from exc
        yield listener


async def _serve(settings: Settings, database: _ServiceDatabase, listener: socket.socket, *, api_only: bool) -> None:
    data_dir = settings.server.data_dir
    key = load_operator_key(settings, data_dir)
    url = _format_url(listener)
    async with Resources.open(
        settings, database_url=database.runtime.database_url, operator_key=key, bulk_threads=1
    ) as resources:
        first = await _ensure_first_tenant(settings, resources, url)
        warnings = await _list_confinement_warnings()
        server = _create_server(resources, _format_screen(url, data_dir, database.note, first, warnings))
        async with _supervise_database(database.embedded):
            with nullcontext() if api_only else run_worker_process(settings, resources.worker_exits, _print_screen):
                await server.serve([listener])


@asynccontextmanager
async def _supervise_database(postgres: EmbeddedPostgres | None) -> AsyncIterator[None]:
    """Restart the embedded Postgres when it ends. The kernel ends Postgres with the thread that started it."""
    if postgres is None:
        yield
        return
    supervisor = asyncio.create_task(_revive_database(postgres))
    try:
        yield
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)


async def _revive_database(postgres: EmbeddedPostgres) -> None:
    while True:
        await asyncio.sleep(DATABASE_CHECK_INTERVAL_SECONDS)
        try:
            # This call blocks the event loop, which is harmless: without a database the process has nothing else to do.
            if postgres.restart():
                logger.error("database.restarted")
        except AppError as exc:  # remains of the killed Postgres may block the start for a moment
            logger.error("database.restart_failed", error=exc)


class _ServiceHttpServer(HttpServer):
    """HTTP server without uvicorn's signal handlers, which end the process before the worker and Postgres."""

    def __init__(self, app: FastAPI, settings: ServerSettings, screen: str, on_end: Callable[[], None]) -> None:
        super().__init__(app, settings)
        self._screen = screen
        self._on_end = on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer requests, and print the start screen."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # objects of the start stay alive: without a freeze, each full collection delays requests
        if self.started:
            _print_screen(self._screen)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server. End event streams first, because they delay the end by the whole grace period."""
        self._on_end()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT until the end of the process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def _create_server(resources: Resources, screen: str) -> _ServiceHttpServer:
    @asynccontextmanager
    async def open_resources() -> AsyncIterator[Resources]:
        yield resources

    settings = resources.settings.server
    app = create_app(open_resources, cors_origins=settings.cors_origins)
    return _ServiceHttpServer(app, settings, screen, resources.change_feed.release_waiters)


def _format_url(listener: socket.socket) -> str:
    """Return the URL for clients on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (compared, not bound)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class _FirstTenant:
    """First tenant of the embedded database; ``new_key`` is its API key if this start created the tenant."""

    new_key: str | None


async def _ensure_first_tenant(settings: Settings, resources: Resources, url: str) -> _FirstTenant | None:
    """Create the first tenant of an embedded database, and write its API key to the data directory."""
    if settings.database.url is not None:
        return None
    data_dir = settings.server.data_dir
    credentials, new_key = read_credentials(data_dir), None
    if credentials is None:
        _, issued = await resources.tenants.create("local")
        new_key = issued.secret
    write_credentials(data_dir, Credentials(url, new_key or (credentials.api_key if credentials else "")))
    return _FirstTenant(new_key)


def _print_screen(screen: str) -> None:
    """Print the start screen. A closed standard output must not end the service."""
    try:
        typer.echo(screen)
    except OSError:
        # At its end the interpreter tries to write the remaining output again, which would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _list_confinement_warnings() -> list[str]:
    """Return lines of a warning if this machine cannot confine the parser processes."""
    confinement = await find_confinement()
    if confinement.level == "full":
        return []
    return [
        "",
        "  Warning    This machine does not confine the processes that read untrusted files:",
        f"             {confinement.describe()}.",
        "             See docs/explanation/security.md for the risk and the remedy.",
    ]


def _format_screen(
    url: str, data_dir: Path, note: str, first: _FirstTenant | None, warnings: Sequence[str] = ()
) -> str:
    """Return the text that a person needs to begin: URL, data directory, API key and a first upload.

    The API key is shown by the start that created it, and only in a terminal. Other outputs end in files and journals
    that other users can read.
    """
    shown_key = first.new_key if first is not None and sys.stdout.isatty() else None
    lines = [
        "",
        f"  Carrel is serving on {url}",
        f"  Console    {format_console_link(url, shown_key) if shown_key else f'{url}/'}",
        f"  API docs   {url}/docs",
        f"  Data       {data_dir} ({note})",
    ]
    if first is not None:
        credentials_path = data_dir / "credentials.json"
        lines += [
            f"  Key        {shown_key} (shown this once)" if shown_key else f"  Key        in {credentials_path}",
            *([f"             kept in {credentials_path}"] if shown_key else []),
            "",
            "  Upload a file:",
            f"    KEY=$({READ_KEY_COMMAND} {shlex.quote(str(credentials_path))})",
            '    curl -H "Authorization: Bearer $KEY" \\',
            f'      -F file=@handbook.pdf "{url}/v1/knowledge-bases/default/documents?wait=30"',
        ]
    return "\n".join([*lines, *warnings, "", "  Ctrl-C stops it.", ""])
