"""A cluster to start and stop, and directories with several permissions."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from app.embedded_postgres import EmbeddedPostgres
from app.embedded_postgres.data_directory import FALLBACK_ROOT
from tests.fixtures.postgres import make_directories


@pytest.fixture(scope="session")
def new_directory(postgres_directory: Path) -> Callable[[], Path]:
    """Factory of directories that any user can enter."""
    return make_directories(postgres_directory, "directory", 0o755)


@pytest.fixture
def directory(new_directory: Callable[[], Path]) -> Path:
    """Directory that any user can enter."""
    return new_directory()


@pytest.fixture(scope="session")
def stopped_cluster(new_directory: Callable[[], Path]) -> Path:
    """Data directory of a stopped cluster with the service's database. A test that starts the cluster also stops it."""
    data_dir = new_directory() / "data"
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        server.ensure_database()
    return data_dir


@pytest.fixture
def copied_cluster(stopped_cluster: Path, directory: Path) -> Path:
    """Separate copy of the cluster for a test that changes its files."""
    subprocess.run(["cp", "-a", stopped_cluster, directory / "copy"], check=True)
    return directory / "copy"


@pytest.fixture
def server(stopped_cluster: Path) -> Iterator[EmbeddedPostgres]:
    """The cluster, running."""
    with EmbeddedPostgres(stopped_cluster, fsync=False) as running:
        yield running


@pytest.fixture
def clean_away() -> Iterator[Callable[[Path], None]]:
    """Cleanup function for files outside of the test's data directories."""
    places: list[Path] = []
    yield places.append
    for place in places:
        assert place.parent == FALLBACK_ROOT
        shutil.rmtree(place)
    # Other services on this machine may have directories there.
    with suppress(OSError):
        FALLBACK_ROOT.rmdir()


class ServerAccount(NamedTuple):
    """The user that the embedded Postgres runs as in the tests."""

    uid: int
    gid: int


def server_account() -> ServerAccount:
    """Return the present user; under root, a user id without an account and without other processes."""
    return (
        ServerAccount(1_899_999_999, 1_899_999_999) if os.geteuid() == 0 else ServerAccount(os.geteuid(), os.getegid())
    )
