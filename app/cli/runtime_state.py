"""Files of ``serve`` in its data directory for other commands: the database's address and keys (mode 0600)."""

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
    """Nothing runs on this data directory; start `carrel serve`, or set CARREL_DATABASE_URL."""

    code = "service_not_running"


@dataclass(frozen=True, slots=True)
class Runtime:
    """The databases of the running service."""

    database_url: str
    admin_database_url: str | None


@dataclass(frozen=True, slots=True)
class Credentials:
    """How the client commands reach the service that runs on this data directory."""

    url: str
    api_key: str


def prepare_data_dir(data_dir: Path) -> None:
    """Make the data directory, for its owner alone; an existing one keeps its mode."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise AppError(f"CARREL_DATA_DIR: {data_dir} cannot be made: {exc.strerror}") from exc


def write_private(path: Path, content: str) -> None:
    """Replace a file that only its owner may read."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_runtime(data_dir: Path, runtime: Runtime) -> None:
    """Write the database's address for ``worker`` and ``migrate``."""
    write_private(data_dir / "runtime.json", json.dumps(asdict(runtime)))


def delete_runtime(data_dir: Path) -> None:
    """Delete the file at a clean stop."""
    with suppress(OSError):
        (data_dir / "runtime.json").unlink()


def find_runtime(settings: Settings) -> Runtime:
    """Return the configured database, else that of the service on the data directory. Raises ServiceNotRunning."""
    configured = settings.database
    if configured.url is not None:
        admin = configured.admin_url
        return Runtime(configured.url.get_secret_value(), admin.get_secret_value() if admin else None)
    try:
        runtime = Runtime(**json.loads((settings.server.data_dir / "runtime.json").read_text()))
        address = urlsplit(runtime.database_url)
        # A service that was killed leaves the file behind.
        socket.create_connection((address.hostname or "", address.port or 0), timeout=5).close()
    except (OSError, ValueError, TypeError) as exc:
        raise ServiceNotRunning(
            f"nothing runs on {settings.server.data_dir}; start `carrel serve`, or set CARREL_DATABASE_URL"
        ) from exc
    return runtime


def load_operator_key(settings: Settings, data_dir: Path) -> str:
    """Return the configured key, else the key that the first start generated in the data directory."""
    if settings.server.operator_key is not None:
        return settings.server.operator_key.get_secret_value()
    path = data_dir / "operator-key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        write_private(path, secrets.token_urlsafe(32))
        return path.read_text().strip()


def read_credentials(data_dir: Path) -> Credentials | None:
    """Return the credentials that ``serve`` wrote, or None."""
    try:
        return Credentials(**json.loads((data_dir / "credentials.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_credentials(data_dir: Path, credentials: Credentials) -> None:
    """Write the credentials for the client commands and for people."""
    write_private(data_dir / "credentials.json", json.dumps(asdict(credentials)))
