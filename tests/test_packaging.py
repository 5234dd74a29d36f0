"""Packaging: image, compose file and locks, parsed, compared with the settings, and run if possible."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from app.embedded_postgres import EmbeddedPostgres
from app.settings import EXTERNAL_VARIABLES, list_variables
from harness.protocol_servers.s3_admin import S3AdminServer
from tests.fixtures.s3 import S3Server

ROOT = Path(__file__).parents[1]
LOCKS = ["requirements.lock", "requirements-runtime.lock", "requirements-build.lock", "requirements-docs.lock"]
SUBCOMMANDS = {"serve", "worker", "migrate"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> dict[str, set[str]]:
    """Return each requirement line (name, version, marker) of a lock with its hashes."""
    found: dict[str, set[str]] = {}
    current = ""
    for line in (ROOT / lock).read_text().splitlines():
        text = line.rstrip("\\").strip()
        if text.startswith("--hash="):
            found[current].add(text)
        elif text:
            current = text
            found[current] = set()
    return found


def names(requirements: Any) -> set[str]:
    return {normal(re.split(r"[\[=<>!~; ]", requirement)[0]) for requirement in requirements}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile as (instruction, rest), with continued lines joined and without comments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


def last_stage() -> dict[str, list[str]]:
    every = instructions()
    start = max(index for index, (word, _) in enumerate(every) if word == "FROM")
    found: dict[str, list[str]] = {}
    for word, rest in every[start:]:
        found.setdefault(word, []).append(rest)
    return found


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_has_hashes_and_no_addresses(lock: str) -> None:
    entries = locked(lock)
    assert entries
    for entry, hashes in entries.items():
        assert re.match(r"[a-z0-9.-]+==\S+", entry), entry
        assert hashes, entry
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)
    assert not re.search(r"://|file:|index-url|find-links|trusted-host", (ROOT / lock).read_text())


@pytest.mark.parametrize("lock", LOCKS[:3])
def test_locks_agree_with_each_other(lock: str) -> None:
    whole = {entry.partition(" ;")[0]: hashes for entry, hashes in locked("requirements.lock").items()}
    for entry, hashes in locked(lock).items():
        assert whole[entry.partition(" ;")[0]] == hashes, f"{entry}: see CONTRIBUTING.md on the locks"


def test_locks_satisfy_project() -> None:
    declared = project()
    runtime = names(declared["project"]["dependencies"])
    extras = {name: names(extra) for name, extra in declared["project"]["optional-dependencies"].items()}
    groups = {name: names(group) for name, group in declared["dependency-groups"].items()}
    assert runtime | extras["embedded"] <= names(locked("requirements-runtime.lock"))
    assert "ir-measures" not in names(locked("requirements-runtime.lock"))  # scipy is heavy, and no server needs it
    assert groups["docs"] <= names(locked("requirements-docs.lock"))
    assert runtime.union(groups["dev"], *extras.values()) <= names(locked("requirements.lock"))
    assert names(declared["build-system"]["requires"]) <= names(locked("requirements-build.lock"))
    assert not names(locked("requirements-runtime.lock")) & {"pytest", "moto", "mypy", "ruff", "flask"}


def test_image_runs_as_unprivileged_user_with_healthcheck() -> None:
    stage = last_stage()
    (user,) = stage["USER"]
    assert int(user) > 0
    assert "/healthz" in stage["HEALTHCHECK"][0]
    # Python looks for modules, and Carrel for .env, in the current directory, which must not be the data
    # directory.
    assert stage["WORKDIR"] == ["/"]
    assert '"python", "-I"' in stage["HEALTHCHECK"][0]
    assert stage["ENTRYPOINT"] == ['["carrel"]']
    assert stage["CMD"][0].startswith('["serve"')


def test_image_installs_by_hash_only() -> None:
    installs = [rest for word, rest in instructions() if word == "RUN" for rest in rest.split("&&") if "pip " in rest]
    assert len(installs) == 4
    for command in installs:
        assert "--no-deps" in command
        assert "--require-hashes" in command or "--no-index" in command or " ." in command


def test_locked_packages_are_installed_without_resolution() -> None:
    """An older pip that resolves with hashes refuses a lock if one of its packages has a newer release."""
    for name in ("Makefile", "Dockerfile"):
        installs = [line for line in (ROOT / name).read_text().splitlines() if "--require-hashes" in line]
        assert installs, name
        assert all("--no-deps" in line for line in installs), name


def test_image_contains_no_secret_and_no_unknown_setting() -> None:
    given = {name for rest in last_stage()["ENV"] for name in re.findall(r"(CARREL_\w+)=", rest)}
    assert given <= list_variables()
    text = (ROOT / "Dockerfile").read_text()
    assert not re.search(r"(?i)(password|secret|token|api_key|operator_key)", text)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    sources = {source for word, rest in instructions() if word == "COPY" for source in rest.split()[:-1]}
    sources = {source.split("/")[0] for source in sources if not source.startswith(("--from", "/"))}
    assert {f"!{source}" for source in sources} <= set(ignored)
    for source in sources:
        assert (ROOT / source).exists(), source


def test_image_healthcheck_distinguishes_up_from_down() -> None:
    command = re.search(r"CMD (\[.*\])", last_stage()["HEALTHCHECK"][0])
    assert command is not None
    program = yaml.safe_load(command[1])
    server = (
        "import http.server, sys\n"
        "class Up(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200 if self.path == '/healthz' else 404); self.end_headers()\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Up)\n"
        "print(server.server_port, flush=True)\n"
        "server.handle_request()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", server], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        environment = {**os.environ, "CARREL_PORT": process.stdout.readline().strip()}
        check = [sys.executable, *program[1:]]
        assert subprocess.run(check, env=environment, timeout=30).returncode == 0
        process.wait(timeout=30)
        assert subprocess.run(check, env=environment, timeout=30, stderr=subprocess.DEVNULL).returncode != 0


def test_compose_services_start_in_order(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"api", "worker", "migrate", "bucket", "db", "s3"}
    for name in ("api", "worker"):
        assert {part: wait["condition"] for part, wait in services[name]["depends_on"].items()} == {
            "migrate": "service_completed_successfully",
            "bucket": "service_completed_successfully",
        }
    assert services["migrate"]["depends_on"]["db"]["condition"] == "service_healthy"
    assert services["bucket"]["depends_on"]["s3"]["condition"] == "service_healthy"
    assert all("test" in services[name]["healthcheck"] for name in ("db", "s3"))
    volumes = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    named = {volume for volume in volumes if not volume.startswith("./")}
    assert named == set(compose["volumes"])
    assert all((ROOT / volume).is_file() for volume in volumes if volume.startswith("./"))


def test_compose_commands_exist(compose: dict[str, Any]) -> None:
    ours = {name: service for name, service in compose["services"].items() if service.get("image") == "carrel:local"}
    commands = {name: service["command"] for name, service in ours.items() if "entrypoint" not in service}
    assert {name: command[0] for name, command in commands.items()} == {
        "api": "serve",
        "worker": "worker",
        "migrate": "migrate",
    }
    assert {command[0] for command in commands.values()} <= SUBCOMMANDS
    assert "--api-only" in commands["api"]
    assert "0.0.0.0" in commands["api"]


def test_compose_variables_are_known_and_in_example(compose: dict[str, Any]) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    environments = [service.get("environment", {}) for service in compose["services"].values()]
    given = {name for environment in environments for name in environment if name.startswith("CARREL_")}
    assert given <= list_variables()
    asked = set(re.findall(r"\$\{(\w+)", text))
    assert {name for name in asked if name.startswith("CARREL_")} <= list_variables() | EXTERNAL_VARIABLES
    example = set(re.findall(r"^#(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert asked <= example
    # A secret has no default: without it compose stops and names it.
    assert set(re.findall(r"\$\{(\w+):\?[^}]+\}", text)) == asked - {
        "CARREL_LOG_LEVEL",
        "CARREL_S3_PUBLIC_ENDPOINT_URL",
    }


def test_compose_setup_has_minimal_settings_and_only_api_is_published(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert all(name.startswith(("CARREL_S3", "S3_ROOT")) for name in services["bucket"]["environment"])
    assert set(services["migrate"]["environment"]) == {"CARREL_DATABASE_URL", "CARREL_ADMIN_DATABASE_URL"}
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8000:8000"]


def test_compose_services_have_only_their_secrets(compose: dict[str, Any]) -> None:
    services = compose["services"]
    holders = {
        secret: {name for name, service in services.items() if secret in service.get("environment", {})}
        for secret in (
            "CARREL_OPERATOR_KEY",
            "CARREL_ADMIN_DATABASE_URL",
            "POSTGRES_PASSWORD",
            "ROOT_SECRET_KEY",
            "S3_ROOT_SECRET_ACCESS_KEY",
            "CARREL_S3_SECRET_ACCESS_KEY",
        )
    }
    assert holders == {
        "CARREL_OPERATOR_KEY": {"api"},
        "CARREL_ADMIN_DATABASE_URL": {"migrate"},
        "POSTGRES_PASSWORD": {"db"},
        "ROOT_SECRET_KEY": {"s3"},
        "S3_ROOT_SECRET_ACCESS_KEY": {"bucket"},
        "CARREL_S3_SECRET_ACCESS_KEY": {"api", "worker", "bucket"},
    }
    root, user = (services[name]["environment"] for name in ("s3", "api"))
    assert "S3_ROOT_SECRET_ACCESS_KEY" in root["ROOT_SECRET_KEY"]
    assert "S3_ROOT" not in user["CARREL_S3_SECRET_ACCESS_KEY"]


def test_compose_limits_services_and_network(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert compose["networks"]["inside"] == {"internal": True}
    for name, service in services.items():
        assert service["networks"] == (["inside", "outside"] if name == "api" else ["inside"]), name
        assert service["pids_limit"] <= 1024, name
        assert service["mem_limit"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["read_only"] is True, name
    for name in ("api", "worker", "migrate", "bucket"):
        assert services[name]["cap_drop"] == ["ALL"]
        assert [place.partition(":")[0] for place in services[name]["tmpfs"]] == ["/tmp"]
    for name in ("api", "worker"):
        assert services[name]["environment"]["TMPDIR"] == "/data"
        assert any(volume.endswith(":/data") for volume in services[name]["volumes"])


def test_sbom_lists_what_the_image_installs(tmp_path: Path) -> None:
    made = tmp_path / "sbom.json"
    command = [sys.executable, str(ROOT / "scripts/build_sbom.py"), str(made)]
    subprocess.run(command, check=True, timeout=60)
    assert made.read_text() == (ROOT / "sbom.cdx.json").read_text(), "run `python -m scripts.build_sbom`"
    listed = json.loads(made.read_text())
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    pinned = {entry.partition(" ;")[0] for entry in locked("requirements-runtime.lock")}
    components = {f"{one['name']}=={one['version']}": one for one in listed["components"]}
    packages = {name for name, one in components.items() if one["purl"].startswith("pkg:pypi/")}
    assert packages == {re.sub(r"\[.*\]", "", entry) for entry in pinned}
    assert all(one["externalReferences"][0]["hashes"] for name, one in components.items() if name in packages)
    for package in json.loads((ROOT / "app/api/api_docs/static/manifest.json").read_text()).values():
        assert components[f"{package['package']}=={package['version']}"]["purl"].startswith("pkg:npm/")


def test_compose_creates_bucket_and_user_once(s3_server: S3Server) -> None:
    with S3AdminServer(s3_server.endpoint_url, root=s3_server.access_key_id) as server:
        environment = {
            **os.environ,
            "CARREL_S3_BUCKET": "made-by-compose",
            "CARREL_S3_ENDPOINT_URL": server.url,
            "CARREL_S3_ACCESS_KEY_ID": "carrel",
            "CARREL_S3_SECRET_ACCESS_KEY": "first & <only>",
            "S3_ROOT_ACCESS_KEY_ID": s3_server.access_key_id,
            "S3_ROOT_SECRET_ACCESS_KEY": s3_server.secret_access_key,
        }
        command = [sys.executable, str(ROOT / "deploy/prepare_object_store.py")]
        subprocess.run(command, env=environment, check=True, timeout=60)
        assert server.users == {"carrel": ("first & <only>", "user")}
        subprocess.run(command, env=environment | {"CARREL_S3_SECRET_ACCESS_KEY": "next"}, check=True, timeout=60)
        assert server.users == {"carrel": ("next", "user")}
        assert server.owners == {"made-by-compose": "carrel"}
        same = environment | {"CARREL_S3_ACCESS_KEY_ID": s3_server.access_key_id}
        refused = subprocess.run(command, env=same, check=False, timeout=60, capture_output=True, text=True)
        assert refused.returncode != 0
        assert "S3_ACCESS_KEY_ID must differ from S3_ROOT_ACCESS_KEY_ID" in refused.stderr
        wrong = environment | {"S3_ROOT_ACCESS_KEY_ID": "stranger"}
        assert subprocess.run(command, env=wrong, check=False, timeout=60, capture_output=True).returncode != 0
    s3_server.client.head_bucket(Bucket="made-by-compose")


async def test_compose_creates_database_with_owner_and_plain_login(tmp_path: Path) -> None:
    """A separate server, because the script runs once on an empty cluster, and its roles belong to the
    whole cluster.
    """
    with EmbeddedPostgres(tmp_path, fsync=False) as server:
        superuser = server.build_url("postgres")
        host, port, password = re.fullmatch(r"postgresql://postgres:(.*)@(.*):(\d+)/postgres", superuser).group(2, 3, 1)  # type: ignore[union-attr]  # the url is what the class promises
        environment = {**os.environ, "PGHOST": host, "PGPORT": port, "PGPASSWORD": password}
        environment |= {"POSTGRES_OWNER_PASSWORD": 'it\'s "o" $HOME', "POSTGRES_RUNTIME_PASSWORD": "plain"}
        script = shlex.quote(str(ROOT / "deploy/postgres-init.sh"))
        subprocess.run(["bash", "-c", script], env=environment, check=True, timeout=60)
        owner = await asyncpg.connect(
            host=host, port=int(port), user="carrel_owner", password='it\'s "o" $HOME', database="carrel"
        )
        roles = await owner.fetch(
            "select rolname, rolsuper, rolcreaterole, rolbypassrls, rolcanlogin from pg_roles"
            " where rolname like 'carrel%' order by rolname"
        )
        assert [tuple(role) for role in roles] == [
            ("carrel_owner", False, True, False, True),
            ("carrel_runtime", False, False, False, True),
        ]
        assert await owner.fetchval("select count(*) from pg_extension where extname = 'vector'") == 1
        await owner.execute("create table mine (id int)")
        await owner.close()
        plain = await asyncpg.connect(
            host=host, port=int(port), user="carrel_runtime", password="plain", database="carrel"
        )
        for forbidden in ("select * from mine", "create table theirs (id int)", "create temporary table t (id int)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await plain.execute(forbidden)
        await plain.close()
