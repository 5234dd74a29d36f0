"""``make prove NAME=fuzz``: call every operation of the OpenAPI description with every role (Schemathesis).

A running service with a tenant for each role, which has one of everything, so that made-up values and real ids come
together. No reply may be a server error (but 503, which is documented), have an undocumented status, media type or
header, or a body that its schema does not describe. What ends things, the asking key among them, comes after the rest,
so that there is something left to ask for.

Before that, every field of every operation gets the zero values and extremes of other languages
(`proofs/extreme_values.py`), and all roles read lists and searches back: no value may break them.

A run that asked nothing in its time, as on a busy machine, has proven nothing: it is done again with another seed and
twice the time, at most three times, and says so.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service
from harness.protocol_servers.chat import ChatServer
from proofs.extreme_values import ExtremeRequest, list_extreme_requests, read_back
from proofs.isolation.grid import create_everything
from proofs.isolation.run import adapt_service, build_chat_settings
from proofs.isolation.tenants import Ids, get_operator_tenant

DURATION_SECONDS = 460
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance"
)
KEY_OPERATIONS = r"^(revoke|rotate)_api_key$"
DELETE_OPERATIONS = r"^(delete|revoke|unbind)_|^cancel_reindex$"
ENDING_OPERATIONS = rf"{DELETE_OPERATIONS}|{KEY_OPERATIONS}"
OPERATION_GROUPS = (
    ("reading and writing", 0.75, ("--exclude-operation-id-regex", ENDING_OPERATIONS)),
    (
        "deleting",
        0.18,
        ("--include-operation-id-regex", DELETE_OPERATIONS, "--exclude-operation-id-regex", KEY_OPERATIONS),
    ),
    ("keys", 0.07, ("--include-operation-id-regex", KEY_OPERATIONS)),
)
# Of the values in a path, so many are real ones.
REAL_ID_SHARE = 0.7
REPETITIONS = 3
# As much time again, in all roles together, for values that are sent one by one.
EXTREME_VALUES_SHARE = 0.5
SEED_STEP = 1000
TESTED_PATTERN, GENERATED_PATTERN = r"Tested: (\d+)", r"(\d+) generated"
ID_FIELDS = (
    "kb",
    "document",
    "node",
    "chunk",
    "api_key",
    "tenant",
    "deletion",
    "n",
    "agent_id",
    "prompt",
    "number",
    "file",
    "vector_store_file",
    "batch",
    "webhook",
    "delivery",
)


@dataclass(frozen=True, slots=True)
class FuzzCaller:
    """A role, its key and the ids that it has."""

    role: str
    key: str
    ids: Ids


def create_callers(running: RunningService) -> Iterator[FuzzCaller]:
    """The operator comes last: its deletions reach the others' tenants."""
    service = adapt_service(running)
    for role in ("reader", "writer", "admin"):
        tenant = service.create_tenant(f"of the {role}")
        key = tenant.admin.post("/v1/api-keys", json={"name": role, "role": role}).raise_for_status().json()["key"]
        yield FuzzCaller(role, key, create_everything(tenant, "A text that is asked for."))
    key = (running.data_dir / "operator-key").read_text().strip()
    ids = create_everything(get_operator_tenant(service), "A text that is asked for.")
    yield FuzzCaller("operator", key, {**ids, "tenant": service.create_tenant("to be asked for").id})
    service.transport.close()


# An archive is sent as the bytes that are made up for it.
HOOKS = """import schemathesis
schemathesis.serializer.alias("application/x-tar", "application/octet-stream")
"""


def build_configuration(ids: Ids) -> str:
    """Schemathesis's: the ids, and which statuses are no server's error."""
    existing = [name for name in ID_FIELDS if name in ids]
    lines = ['hooks = "hooks.py"', "[parameters]"]
    lines += [f'"path.{name}" = {{ dictionary = "{name}", probability = {REAL_ID_SHARE} }}' for name in existing]
    for name in existing:
        lines += [f"[dictionaries.{name}]", f"values = [{json.dumps(ids[name])}]"]
    lines += ["[checks.not_a_server_error]", 'expected-statuses = ["2xx", "3xx", "4xx", "503"]']
    return "\n".join(lines) + "\n"


def run_schemathesis(
    url: str, caller: FuzzCaller, chosen: Sequence[str], *, seconds: int, seed: int
) -> tuple[bool, str]:
    """One run: whether nothing was found, and what Schemathesis says.

    In one thread: several that parse Python at the same time trip CPython 3.11 over its own counting
    (python/cpython#106905), and so Hypothesis, which parses what it calls.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "schemathesis.toml"
        config.write_text(build_configuration(caller.ids))
        config.with_name("hooks.py").write_text(HOOKS)
        command = [
            str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "--no-color",
            "run", f"{url}/openapi.json", *chosen, "--header", f"Authorization: Bearer {caller.key}",
            "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-time", str(seconds),
            "--seed", str(seed), "--workers", "1", "--request-timeout", "30", "--continue-on-failure",
            "--no-shrink",
            "--generation-database", "none", "--suppress-health-check", "all", "--warnings", "off",
        ]  # fmt: skip
        environment = {"PATH": os.defpath, "HOME": folder, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=seconds + 120
        )
    return done.returncode == 0, done.stdout + done.stderr


def send_extreme_values(running: RunningService, everybody: Sequence[FuzzCaller], *, seconds: float) -> int:
    """Send every extreme value with every role that is not the operator's; returns for how many something broke."""
    failures = 0
    for caller in everybody:
        headers = {"Authorization": f"Bearer {caller.key}"}
        with httpx2.Client(base_url=running.url, headers=headers, timeout=60) as client:
            description = client.get("/openapi.json").raise_for_status().json()
            until, sent, broken = time.monotonic() + seconds / len(everybody), 0, []
            every = [item for item in list_extreme_requests(description, caller.ids) if not _is_ending(item, caller)]
            random.Random(1).shuffle(every)
            for item in every:
                if time.monotonic() > until:
                    break
                sent += 1
                if item.send(client).status_code in (500, 502):
                    broken.append(str(item))
            broken += read_back(client, description, caller.ids)
        failures += bool(broken)
        print(
            f"{caller.role}, extreme values: {sent} of {len(every)} values: {'FOUND' if broken else 'clean'}",
            flush=True,
        )
        print("\n".join(broken[:50]), end="\n" if broken else "")
    return failures


def _is_ending(request: ExtremeRequest, caller: FuzzCaller) -> bool:
    """Whether it would end what is still asked for: a key, a tenant, a knowledge base."""
    return (
        request.method == "delete"
        or "/rotate" in request.path
        or (caller.role == "operator" and request.path == "/v1/tenants")
    )


def run(running: RunningService, *, seconds: int, seed: int) -> int:
    """Fuzz with every role; returns in how many runs something was found."""
    everybody = list(create_callers(running))
    failures = send_extreme_values(running, everybody, seconds=seconds * EXTREME_VALUES_SHARE)
    for caller in everybody:
        for name, share, chosen in OPERATION_GROUPS:
            budget = max(8, round(seconds * share / len(everybody)))
            begun = time.monotonic()
            is_clean, reported = run_schemathesis(running.url, caller, chosen, seconds=budget, seed=seed)
            for repetition in range(1, REPETITIONS + 1):
                if not has_sent_nothing(reported):
                    break
                again, budget = seed + SEED_STEP * repetition, budget * 2
                print(f"{caller.role}, {name}: nothing was asked; again with seed {again}, {budget} s", flush=True)
                is_clean, reported = run_schemathesis(running.url, caller, chosen, seconds=budget, seed=again)
            is_clean = is_clean and not has_sent_nothing(reported)
            failures += not is_clean
            print(
                f"{caller.role}, {name}: {_parse_count(TESTED_PATTERN, reported)} operations, "
                f"{_parse_count(GENERATED_PATTERN, reported)} "
                f"requests in {time.monotonic() - begun:.0f} s: {'clean' if is_clean else 'FOUND'}",
                flush=True,
            )
            if not is_clean:
                print(_shorten_output(reported))
    return failures


def has_sent_nothing(reported: str) -> bool:
    """Whether the time was over before anything was asked, and nothing was wrong."""
    is_error = " FAILURES " in reported or " ERRORS " in reported or " error occurred" in reported
    return not is_error and not _parse_count(TESTED_PATTERN, reported)


def _parse_count(pattern: str, reported: str) -> int:
    result = re.search(pattern, reported)
    return int(result[1]) if result else 0


def _shorten_output(reported: str) -> str:
    """Without the long values that made it happen; the seed makes them again."""
    lines = [line[:400] for line in reported.partition(" FAILURES ")[2].splitlines() or reported.splitlines()]
    return "\n".join(lines[:120])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=DURATION_SECONDS)
    parser.add_argument("--seed", type=int, default=1)
    provided = parser.parse_args()
    # Made-up keys are tried without end, and receivers of webhooks are on this machine.
    lenient = {
        "CARREL_AUTH_FAILURES_PER_MINUTE": "1000000",
        "CARREL_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
        "CARREL_SQL_VIEWS": "true",
    }
    with (
        ChatServer(reply=lambda _: "I do not know.") as chat,
        embedding_endpoint() as embedding_url,
        running_service(embedding_url, settings={**lenient, **build_chat_settings(chat)}) as running,
    ):
        failures = run(running, seconds=provided.seconds, seed=provided.seed)
    print("nothing was found" if not failures else f"something was found in {failures} runs")
    return int(bool(failures))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
