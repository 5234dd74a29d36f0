"""The service in a thread of the test process: the real application on a port, with its worker."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from app.bootstrap import Resources
from app.cli.slow_client_protection import HttpServer
from app.db.index_ddl import OwnerDatabase
from app.embedded_postgres import DatabaseUrls
from app.ingestion.parse_reuse import OriginalParser
from app.ingestion.parsers.factory import create_parser_pool
from app.ingestion.pipeline import IngestionPipeline
from app.main import create_app
from app.settings import Settings, load_settings
from app.worker.loop import Worker

OPERATOR_KEY = "operator-key-of-the-tests-0123456789"
NEVER_SECONDS = 86_400


@dataclass(frozen=True)
class Tenant:
    """Tenant of the running service, with a client that uses its admin key."""

    service: "Service"
    id: str
    key: str
    admin: httpx2.Client

    def create_client(self, role: str = "reader", **narrowing: Any) -> httpx2.Client:
        """Create an API key and return a client that uses it.

        Args:
            role: Role of the key.
            narrowing: Further fields of the key, such as its restrictions.
        """
        created = self.admin.post("/v1/api-keys", json={"name": f"a {role}", "role": role, **narrowing})
        created.raise_for_status()
        return self.service.create_client(created.json()["key"])

    def upload(self, path: Path, *, kb: str = "default", **fields: str) -> dict[str, Any]:
        """Upload a file, and wait until its document is ready or failed.

        Args:
            path: The file.
            kb: Name or id of the knowledge base.
            fields: Further form fields.

        Returns:
            The document.
        """
        with path.open("rb") as file:
            reply = self.admin.post(
                f"/v1/knowledge-bases/{kb}/documents",
                params={"wait": 60},
                files={"file": (path.name, file)},
                data=fields,
            )
        reply.raise_for_status()
        document: dict[str, Any] = reply.json()
        return document

    def add_text(self, text: str, *, kb: str = "default", **fields: Any) -> dict[str, Any]:
        """Upload a text, and wait until its document is ready or failed.

        Args:
            text: The text.
            kb: Name or id of the knowledge base.
            fields: Further fields of the body.

        Returns:
            The document.
        """
        body = {"text": text, **fields}
        reply = self.admin.post(f"/v1/knowledge-bases/{kb}/documents", params={"wait": 60}, json=body)
        reply.raise_for_status()
        document: dict[str, Any] = reply.json()
        return document


@dataclass
class Service:
    """Running service: its address, its settings and its resources."""

    url: str
    settings: Settings
    urls: DatabaseUrls
    resources: Resources
    app: Any
    # All clients share one transport. With separate transports, a test run would keep a thousand connections open.
    transport: httpx2.HTTPTransport = field(default_factory=httpx2.HTTPTransport)

    def create_client(self, key: str | None = None) -> httpx2.Client:
        """Create a client that sends this key."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=90, transport=self.transport)

    @property
    def operator(self) -> httpx2.Client:
        """A new client that uses the API key of the operator."""
        return self.create_client(OPERATOR_KEY)

    def create_tenant(self, name: str = "tenant") -> Tenant:
        """Create a tenant with an admin key."""
        created = self.operator.post("/v1/tenants", json={"name": name})
        created.raise_for_status()
        key = created.json()["api_key"]["key"]
        return Tenant(self, created.json()["id"], key, self.create_client(key))


def build_settings(data_dir: Path, **groups: dict[str, Any]) -> Settings:
    """Load settings for a test.

    Args:
        data_dir: Data directory of the service.
        groups: Settings by group, as for ``load_settings``.

    Returns:
        The settings. They do not depend on the environment.
    """
    server = {"CARREL_DATA_DIR": data_dir, "CARREL_OPERATOR_KEY": OPERATOR_KEY, **groups.pop("server", {})}
    # Index maintenance recomputes the weights, which would change scores during a test. Its tests call it directly.
    worker = {"CARREL_WORKER_MAINTENANCE_INTERVAL_SECONDS": NEVER_SECONDS, **groups.pop("worker", {})}
    # All tests use one client address, so failed sign-ins of one test would block the others.
    identity = {"CARREL_AUTH_FAILURES_PER_MINUTE": 1_000_000, **groups.pop("identity", {})}
    # Receivers of webhooks are on this machine.
    webhooks = {"CARREL_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8", **groups.pop("webhooks", {})}
    return load_settings(server=server, worker=worker, identity=identity, webhooks=webhooks, **groups)


@dataclass
class _ServiceThread:
    """Thread of the service. When ``started`` is set, either ``service`` is running or ``failures`` has the errors."""

    settings: Settings
    urls: DatabaseUrls
    listener: socket.socket
    has_worker: bool
    has_owner: bool = False
    started: threading.Event = field(default_factory=threading.Event)
    service: Service | None = None
    failures: list[BaseException] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    def run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as exc:  # raised again in the thread of the test
            self.failures.append(exc)
        finally:
            self.started.set()

    async def _main(self) -> None:
        settings, urls = self.settings, self.urls
        async with (
            Resources.open(settings, database_url=urls.app, operator_key=OPERATOR_KEY, bulk_threads=1) as resources,
            create_parser_pool(settings.parser, 1) as parsers,
        ):

            @asynccontextmanager
            async def opened_resources() -> Any:
                yield resources

            app = create_app(opened_resources, cors_origins=settings.server.cors_origins)
            server = HttpServer(app, settings.server)
            server.capture_signals = no_signals  # type: ignore[method-assign]  # signals belong to the main thread
            pipeline = IngestionPipeline(
                resources.objects,
                OriginalParser(resources.objects, parsers),
                resources.embedders,
                resources.queue,
                resources.extractors,
                resources.vision,
            )
            working = Worker(resources, pipeline, OwnerDatabase(urls.owner) if self.has_owner else None)
            tasks = [asyncio.create_task(server.serve([self.listener]))]
            if self.has_worker:
                tasks.append(asyncio.create_task(working.run(shutdown_timeout_seconds=5)))
            loop = asyncio.get_running_loop()

            def stop_all() -> None:
                server.should_exit = True
                working.stop()

            def stop_from_other_thread() -> None:
                loop.call_soon_threadsafe(stop_all)

            self.stop = stop_from_other_thread
            while not server.started:
                await asyncio.sleep(0.01)
            url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
            self.service = Service(url, settings, urls, resources, app)
            self.started.set()
            await asyncio.gather(*tasks)


@contextmanager
def run_service(
    settings: Settings, urls: DatabaseUrls, *, worker: bool = True, owner: bool = False
) -> Iterator[Service]:
    """Run the service in a separate thread until the block ends.

    Args:
        settings: Settings of the service.
        urls: Addresses of the database.
        worker: Whether to run a worker.
        owner: Whether the worker gets the role that owns the tables.

    Yields:
        The running service.

    Raises:
        TimeoutError: The service did not start within a minute.
    """
    listening = socket.socket(
        socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # asyncio needs the protocol to set TCP_NODELAY
    listening.bind(("127.0.0.1", 0))
    runner = _ServiceThread(settings, urls, listening, worker, owner)
    thread = threading.Thread(target=runner.run, name="service")
    thread.start()
    runner.started.wait(60)
    if runner.failures or runner.service is None:
        thread.join(5)
        listening.close()
        raise runner.failures[0] if runner.failures else TimeoutError("the service did not start")
    try:
        yield runner.service
    finally:
        runner.service.transport.close()
        runner.stop()
        thread.join(30)
        listening.close()
    if runner.failures:
        raise runner.failures[0]


@contextmanager
def no_signals() -> Iterator[None]:
    """Do nothing. It replaces the signal handlers of the HTTP server."""
    yield
