"""Files in the data directory that ``serve`` writes for other commands: database URLs and API keys (mode 0600)."""

import json
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from app.errors import AppError
from app.settings import Settings


class ServiceNotRunning(AppError):
    """No service runs on this data directory; start `carrel serve`, or set CARREL_DATABASE_URL."""

    code = "service_not_running"


@dataclass(frozen=True, slots=True)
class Runtime:
    """Database URLs of the service.

    Attributes:
        database_url: URL for requests, with a role that does not own the tables.
        admin_database_url: URL with the role that owns the tables; None if it is not configured.
    """

    database_url: str
    admin_database_url: str | None


@dataclass(frozen=True, slots=True)
class Credentials:
    """URL and API key of the service that runs on the data directory, for the client commands."""

    url: str
    api_key: str


def prepare_data_dir(data_dir: Path) -> None:
    """Create the data directory with mode 0700; an existing directory keeps its mode."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise AppError(f"CARREL_DATA_DIR: cannot create {data_dir}: {exc.strerror}; choose another directory") from exc


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner may read. An existing file is replaced atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_runtime(data_dir: Path, runtime: Runtime) -> None:
    """Write the file with the database URLs, which the commands ``worker``, ``migrate`` and ``doctor`` read."""
    write_private(data_dir / "runtime.json", json.dumps(asdict(runtime)))


def delete_runtime(data_dir: Path) -> None:
    """Delete the file with the database URLs when the service stops."""
    with suppress(OSError):
        (data_dir / "runtime.json").unlink()


def find_runtime(settings: Settings) -> Runtime:
    """Return the configured database, or the database of the service that runs on the data directory.

    Raises:
        ServiceNotRunning: No database is configured, and no service runs on the data directory.
    """
    configured = settings.database
    if configured.url is not None:
        admin = configured.admin_url
        return Runtime(configured.url.get_secret_value(), admin.get_secret_value() if admin else None)
    try:
        runtime = Runtime(**json.loads((settings.server.data_dir / "runtime.json").read_text()))
        address = urlsplit(runtime.database_url)
        # The file remains after a service was killed.
        socket.create_connection((address.hostname or "", address.port or 0), timeout=5).close()
    except (OSError, ValueError, TypeError) as exc:
        raise ServiceNotRunning(
            f"no service runs on {settings.server.data_dir}; start `carrel serve`, or set CARREL_DATABASE_URL"
        ) from exc
    return runtime


def load_operator_key(settings: Settings, data_dir: Path) -> str:
    """Return the configured operator key, or the key in the data directory, which the first start generates."""
    if settings.server.operator_key is not None:
        return settings.server.operator_key.get_secret_value()
    path = data_dir / "operator-key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        write_private(path, secrets.token_urlsafe(32))
        return path.read_text().strip()


def read_credentials(data_dir: Path) -> Credentials | None:
    """Return the credentials that ``serve`` wrote, or None if the file is missing or damaged."""
    try:
        return Credentials(**json.loads((data_dir / "credentials.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_credentials(data_dir: Path, credentials: Credentials) -> None:
    """Write the file with the credentials, which the client commands read."""
    write_private(data_dir / "credentials.json", json.dumps(asdict(credentials)))
