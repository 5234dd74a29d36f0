"""Stores to test: one below a temporary directory, one in the tests' S3 server; each test has a separate tenant."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from app.object_store import ObjectStore
from app.object_store.filesystem import FileObjectStore
from app.object_store.s3 import S3ObjectStore
from app.object_store.s3_client import READ_TIMEOUT_SECONDS
from tests.fixtures.s3 import S3Server

S3Opener = Callable[..., S3ObjectStore]


@pytest.fixture
def tenant() -> str:
    return str(uuid4())


@pytest.fixture(scope="session")
async def file_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FileObjectStore]:
    store = FileObjectStore(tmp_path_factory.mktemp("objects") / "below" / "root")
    yield store
    await store.close()


@pytest.fixture(scope="session")
def open_s3(s3_server: S3Server) -> S3Opener:
    def opened(
        endpoint_url: str | None = s3_server.endpoint_url,
        bucket: str = s3_server.bucket,
        public_endpoint_url: str | None = None,
        silence_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> S3ObjectStore:
        return S3ObjectStore(
            bucket,
            endpoint_url=endpoint_url,
            public_endpoint_url=public_endpoint_url,
            access_key_id=s3_server.access_key_id,
            secret_access_key=s3_server.secret_access_key,
            region=None,
            read_timeout_seconds=silence_seconds,
        )

    return opened


@pytest.fixture(scope="session")
async def s3_store(open_s3: S3Opener, s3_server: S3Server) -> AsyncIterator[S3ObjectStore]:
    store = open_s3(public_endpoint_url=s3_server.endpoint_url)
    yield store
    await store.close()


@pytest.fixture(params=["files", "s3"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    name = "file_store" if request.param == "files" else "s3_store"
    found: ObjectStore = request.getfixturevalue(name)
    return found


@pytest.fixture
def a_file(tmp_path: Path) -> Callable[[bytes], Path]:
    def written(content: bytes) -> Path:
        path = tmp_path / f"source-{uuid4()}"
        path.write_bytes(content)
        return path

    return written
