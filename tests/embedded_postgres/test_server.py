"""Settings of the server process: a free port and the size of shared memory."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.embedded_postgres import PortInUse
from app.embedded_postgres.binaries import find_binaries
from app.embedded_postgres.data_directory import ClusterLocation
from app.embedded_postgres.server import (
    choose_shared_buffers,
    choose_shared_memory_type,
    find_free_ports,
    get_available_memory,
    start_server,
)


def test_occupied_port_is_replaced_by_next(stopped_cluster: Path) -> None:
    with ExitStack() as locks, socket.create_server(("127.0.0.1", 0)) as listener:
        place = ClusterLocation.lock(stopped_cluster, find_binaries(), locks)
        taken = listener.getsockname()[1]
        with pytest.raises(PortInUse, match=str(taken)):
            start_server(place, [taken], {})
        free = next(find_free_ports())
        server = start_server(place, [taken, free], {})
        server.stop()
        assert server.port == free
        assert server.process.returncode == 0


def test_shared_memory_type_depends_on_free_space() -> None:
    assert choose_shared_memory_type(Path("/proc")) == "mmap"
    assert choose_shared_memory_type(Path("/nonexistent")) == "mmap"
    assert choose_shared_memory_type(Path("/var/tmp")) == "posix"


def test_shared_buffers_are_a_share_of_memory() -> None:
    number, unit = int(choose_shared_buffers()[:-2]), choose_shared_buffers()[-2:]
    assert unit == "MB"
    assert 128 <= number <= 1024


def test_available_memory_respects_container_limit(tmp_path: Path) -> None:
    limit, machine = tmp_path / "memory.max", get_available_memory(tmp_path / "none")
    for written, bytes_ in (("268435456\n", 2**28), ("max\n", machine), (f"{2**60}\n", machine)):
        limit.write_text(written)
        assert get_available_memory(limit) == bytes_
