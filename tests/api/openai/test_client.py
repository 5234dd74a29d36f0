"""The official OpenAI client in a separate process against a running service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.running_service import Tenant

SCRIPT = Path(__file__).with_name("drive.py")
# `make prove NAME=clients` names the folder of environments with other versions of the client.
ENVIRONMENTS = os.environ.get("CLIENT_ENVIRONMENTS")
OTHERS = sorted(map(str, Path(ENVIRONMENTS).glob("openai-*/bin/python"))) if ENVIRONMENTS else []


@pytest.mark.capability("openai")
@pytest.mark.parametrize("python", [sys.executable, *OTHERS], ids=["installed", *map(str, range(len(OTHERS)))])
def test_openai_client_drive_succeeds(tenant: Tenant, python: str) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "native"}).raise_for_status()
    tenant.add_text("The heron fishes.", kb="native", title="Herons")
    store = tenant.admin.get("/v1/knowledge-bases/native").json()["id"]
    reader = tenant.create_client("reader").headers["authorization"].removeprefix("Bearer ")
    done = subprocess.run(
        [python, SCRIPT, f"{tenant.service.url}/openai/v1", tenant.key, reader, store],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error::DeprecationWarning"} if python == sys.executable else None,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.splitlines()[-1] == "done"
