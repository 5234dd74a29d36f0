"""Files of the cluster: created, refused and repaired."""

import os
from pathlib import Path

import pytest

from app.embedded_postgres import ClusterUnusable, EmbeddedPostgres
from app.embedded_postgres.cluster import open_log, read_or_create_secret
from tests.embedded_postgres.conftest import server_account


def cluster(directory: Path, *files: tuple[str, str]) -> EmbeddedPostgres:
    """Return a server for a data directory that holds these files of a cluster."""
    pgdata = directory / "data" / "postgres" / "pgdata"
    pgdata.mkdir(parents=True)
    os.chown(pgdata, server_account().uid, server_account().gid)
    for name, content in files:
        (pgdata.parent / name).write_text(content)
    return EmbeddedPostgres(directory / "data")


def test_cluster_of_other_version_is_refused(directory: Path) -> None:
    old = cluster(directory, ("password", "secret"), ("pgdata/PG_VERSION", "16\n"))
    with pytest.raises(ClusterUnusable, match=r"\A[^\n]*pgdata is of Postgres 16, this Carrel runs 18[^\n]*\Z"):
        old.start()
    assert (directory / "data/postgres/pgdata/PG_VERSION").read_text() == "16\n"


def test_incomplete_cluster_is_refused(directory: Path) -> None:
    with pytest.raises(ClusterUnusable, match="PG_VERSION is missing"):
        cluster(directory, ("password", "secret")).start()


def test_cluster_with_lost_password_is_refused(directory: Path) -> None:
    with pytest.raises(ClusterUnusable, match="password is missing"):
        cluster(directory, ("pgdata/PG_VERSION", "18\n")).start()
    assert not (directory / "data/postgres/password").exists()


def test_interrupted_cluster_setup_is_repeated(directory: Path) -> None:
    partial = directory / "data" / "postgres" / "pgdata.partial"
    partial.mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(directory / "data", fsync=False) as server:
        assert server.is_running
    assert not partial.exists()


def test_secret_file_is_created_once_with_closed_mode(directory: Path) -> None:
    secret = read_or_create_secret(directory / "secret")
    assert len(secret) >= 32
    assert read_or_create_secret(directory / "secret") == secret
    assert (directory / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in directory.iterdir()] == ["secret"]


def test_planted_symlink_is_not_followed(directory: Path) -> None:
    (directory / "target").write_text("something of root's")
    (directory / "secret").symlink_to(directory / "target")
    (directory / "log").symlink_to(directory / "target")
    for open_file in (read_or_create_secret, open_log):
        with pytest.raises(OSError, match="symbolic"):
            open_file(directory / ("log" if open_file is open_log else "secret"))
    assert (directory / "target").read_text() == "something of root's"


def test_large_log_file_is_rotated(directory: Path) -> None:
    log = directory / "postgres.log"
    log.write_bytes(b"x" * 10_000_001)
    os.close(open_log(log))
    assert log.stat().st_size == 0
    assert (directory / "postgres.log.1").stat().st_size == 10_000_001
