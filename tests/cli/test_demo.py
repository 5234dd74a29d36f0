"""``carrel demo`` on data of another version of Carrel."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import asyncpg

from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import run, serving
from tests.cli.conftest import embedding_settings


async def rename_column(data_dir: Path) -> None:
    runtime = json.loads((data_dir / "runtime.json").read_text())
    connection = await asyncpg.connect(runtime["admin_database_url"])
    try:
        await connection.execute("alter table document rename column metadata_revision to former_revision")
    finally:
        await connection.close()


def test_demo_on_data_of_another_version_moves_them_away(
    new_place: Callable[[], Path], endpoint: EmbeddingServer
) -> None:
    place = new_place()
    with serving(place, **embedding_settings(endpoint)) as service:
        asyncio.run(rename_column(place / ".carrel"))
        assert service.end() == 0
    (place / ".carrel").rename(place / "demo-data")
    done = run(place, "demo", "--data-dir", "demo-data")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All three answers" in done.stdout
    assert "Another version of Carrel made the data in demo-data" in done.stdout
    moved = [folder for folder in place.iterdir() if folder.name.startswith("demo-data-")]
    assert [(folder / "operator-key").is_file() for folder in moved] == [True]
    assert (place / "demo-data" / "operator-key").is_file()
    # Postgres can enter the directory, so its cluster is not below /var/lib and ends with the directory.
    assert (place / "demo-data" / "postgres" / "pgdata").is_dir()
