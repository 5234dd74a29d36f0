"""Machines that cannot confine parser processes: the warning on serve's screen, in the log and in doctor."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import run, serving, wait_until
from tests.cli.conftest import embedding_settings

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="the levels are those of root on Linux"
)

REFUSING = """
from tests.sandbox.surroundings import refuse_confinement
refuse_confinement(filters=True, landlock=True)
from app.cli import app
app()
"""


def test_serve_without_confinement_warns_on_screen_and_in_log(place: Path, endpoint: EmbeddingServer) -> None:
    program = [sys.executable, "-c", REFUSING]
    with serving(place, program=program, **embedding_settings(endpoint)) as service:
        screen = " ".join(service.screen.split())
        assert "This machine does not confine the processes that read untrusted files" in screen
        assert "in force: own user; missing landlock" in screen
        service.wait_for("parser.confinement")
        (event, *_) = service.events("parser.confinement")
        assert (event["level"], event["in_force"], event["own_user"]) == ("warning", "partial", True)
        with service.client() as admin:

            def confinement_of_workers() -> Any:
                return admin.get("/v1/status").raise_for_status().json()["workers"]["parser_confinement"]

            wait_until(lambda: confinement_of_workers() is not None)
            assert confinement_of_workers() == {"level": "partial", "detail": None}
        service.end()


def test_serve_with_confinement_has_no_warning(place: Path, endpoint: EmbeddingServer) -> None:
    with serving(place, **embedding_settings(endpoint)) as service:
        assert "Warning" not in service.screen
        service.wait_for("parser.confinement")
        (event, *_) = service.events("parser.confinement")
        assert (event["level"], event["in_force"], event["missing"]) == ("info", "full", [])
        service.end()


def test_doctor_names_confinement_measures(place: Path) -> None:
    findings = json.loads(run(place, "doctor", "--json").stdout)
    (finding,) = [finding for finding in findings if finding["check"] == "parser confinement"]
    assert finding["state"] == "ok"
    assert finding["detail"].startswith("in force: own user, system call filter")
