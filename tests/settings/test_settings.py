"""Settings: an invalid setting stops the start with a line that names it, and .env.example describes every setting."""

import json
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.settings import (
    EXTERNAL_VARIABLES,
    GROUPS,
    Settings,
    SettingsError,
    get_reader,
    get_unit,
    get_variable_name,
    list_variables,
    load_settings,
)
from app.settings.origins import ADDRESS_BY_SECRET
from app.settings.renames import RENAMED_KEYS, RENAMED_VARIABLES, REPLACED_VARIABLES
from scripts.build_env_example import build_example

EXAMPLE = Path(__file__).parents[2] / ".env.example"
S3 = {
    "CARREL_S3_BUCKET": "originals",
    "CARREL_S3_ACCESS_KEY_ID": "an-id",
    "CARREL_S3_SECRET_ACCESS_KEY": "hidden-s3-secret",
}
ENDPOINT = {
    "CARREL_EMBEDDING_BASE_URL": "http://models:1/v1/",
    "CARREL_EMBEDDING_MODEL": "m",
    "CARREL_EMBEDDING_DIMENSIONS": "8",
}
OIDC = {"CARREL_OIDC_ISSUER": "https://login.example/", "CARREL_OIDC_AUDIENCE": "carrel"}
SECRET = {"header": "X-Api-Key", "value": "hidden"}
FURTHER = {"model": "further", "base_url": "http://models:2/v1/", "dimensions": 16}


def models(*listed: Any) -> dict[str, str]:
    """Return a list of embedding models in addition to the default one."""
    return {"CARREL_EMBEDDING_MODELS": json.dumps(listed)}


def binding(**changes: Any) -> dict[str, str]:
    """Return a setting that allows all tenants one address and one secret."""
    given = {"url": "https://search.example.com/search", "tenants": ["*"], "secrets": {"ONE": SECRET}, **changes}
    return {"CARREL_HTTP_SOURCES": json.dumps([given])}


class Environment:
    """The process's environment without variables of the service, in an empty directory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self._monkeypatch = monkeypatch
        self.file = directory / ".env"

    def load(self, variables: dict[str, str], **overrides: dict[str, Any]) -> Settings:
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)
        return load_settings(**overrides)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Environment:
    for name in list_variables() | EXTERNAL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Environment(monkeypatch, tmp_path)


def example_values() -> dict[str, str]:
    lines = re.findall(r"^#(CARREL_[A-Z0-9_]+)=(.*)$", EXAMPLE.read_text(), re.MULTILINE)
    assert len({name for name, _ in lines}) == len(lines)
    return dict(lines)


def test_env_example_lists_every_variable_and_no_other() -> None:
    assert set(example_values()) == list_variables() | EXTERNAL_VARIABLES


def test_env_example_equals_generated_text() -> None:
    assert EXAMPLE.read_text() == build_example(), "run: python -m scripts.build_env_example"


def test_settings_every_field_has_a_description_a_reader_and_a_unit_if_it_is_a_number() -> None:
    without_unit = {"CARREL_PORT", "CARREL_SQL_VIEW_PORT"}
    for group in GROUPS.values():
        for field in group.model_fields.values():
            name = get_variable_name(field)
            assert re.fullmatch(r"[A-Z].*\.", field.description or ""), name
            assert get_reader(field) in {"API", "worker", "API and worker"}, name
            is_number = re.search(r"\b(int|float)\b", str(field.annotation)) is not None
            assert is_number is False or (get_unit(field) is None) == (name in without_unit), name


def test_env_example_sets_nothing_and_explains_each_variable() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assert all(not line or line.startswith("#") for line in lines)
    for before, line in pairwise(lines):
        if re.match(r"#[A-Z]", line) and "=" in line:
            assert re.match(r"# .*\.$", before), line


def test_env_example_defaults_equal_defaults(environment: Environment) -> None:
    plain = environment.load({})
    filled = environment.load({name: value for name, value in example_values().items() if value})
    assert filled == plain
    told = example_values()
    for group in GROUPS.values():
        for field in group.model_fields.values():
            has_default = field.default not in (None, "", ())
            assert bool(told[get_variable_name(field)]) == has_default, get_variable_name(field)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"CARREL_PORT": "eighty"}, "CARREL_PORT"),
        ({"CARREL_PORT": "70000"}, "CARREL_PORT"),
        ({"CARREL_LOG_LEVEL": "loud"}, "CARREL_LOG_LEVEL"),
        ({"CARREL_OPERATOR_KEY": "hidden-too-short"}, "CARREL_OPERATOR_KEY"),
        ({"CARREL_MAX_UPLOAD_BYTES": "1"}, "CARREL_MAX_UPLOAD_BYTES"),
        ({"CARREL_DATABASE_URL": "mysql://u:hidden@h/d"}, "CARREL_DATABASE_URL"),
        ({"CARREL_DATABASE_URL": "postgresql://h/d"}, "CARREL_DATABASE_URL"),
        ({"CARREL_DATABASE_URL": "postgresql://u:hidden@h"}, "CARREL_DATABASE_URL"),
        ({"CARREL_ADMIN_DATABASE_URL": "hidden"}, "CARREL_ADMIN_DATABASE_URL"),
        ({"CARREL_DATABASE_URL": "postgresql://u:hidden@h/d?sslmode=sometimes"}, "CARREL_DATABASE_URL"),
        ({"CARREL_DATABASE_URL": "postgresql://u:hidden@h/d?channel_binding=require"}, "CARREL_DATABASE_URL"),
        ({"CARREL_ADMIN_DATABASE_URL": "postgresql://u:hidden@h/d"}, "CARREL_DATABASE_URL"),
        ({"CARREL_S3_PUBLIC_ENDPOINT_URL": "https://s3.example"}, "CARREL_S3_BUCKET"),
        ({"CARREL_DATABASE_POOL_SIZE": "0"}, "CARREL_DATABASE_POOL_SIZE"),
        ({**S3, "CARREL_S3_ENDPOINT_URL": "s3:9000"}, "CARREL_S3_ENDPOINT_URL"),
        ({"CARREL_EMBEDDING_BASE_URL": "models"}, "CARREL_EMBEDDING_BASE_URL"),
        ({**ENDPOINT, "CARREL_EMBEDDING_DIMENSIONS": "0"}, "CARREL_EMBEDDING_DIMENSIONS: input should be greater"),
        ({**ENDPOINT, "CARREL_EMBEDDING_DIMENSIONS": "4001"}, "CARREL_EMBEDDING_DIMENSIONS: input should be less"),
        ({"CARREL_EMBEDDING_PRECISION": "fp8"}, "CARREL_EMBEDDING_PRECISION"),
        ({"CARREL_EMBEDDING_TIMEOUT_SECONDS": "0"}, "CARREL_EMBEDDING_TIMEOUT_SECONDS"),
        ({"CARREL_PARSER_MAX_MEMORY_MB": "10"}, "CARREL_PARSER_MAX_MEMORY_MB"),
        ({"CARREL_OCR_LANGUAGES": "en"}, "CARREL_OCR_LANGUAGES"),
        ({"CARREL_OCR_LANGUAGES": "eng,../deu"}, "CARREL_OCR_LANGUAGES"),
        ({"CARREL_OCR_LANGUAGES": "eng,,deu"}, "CARREL_OCR_LANGUAGES"),
        ({"CARREL_WORKER_LEASE_TIMEOUT_SECONDS": "-1"}, "CARREL_WORKER_LEASE_TIMEOUT_SECONDS"),
        # unknown
        ({"CARREL_PROT": "8000"}, "CARREL_PROT"),
        ({"carrel_s3_buket": "x"}, "CARREL_S3_BUKET"),
        ({"CARREL_UNHEARD_OF": ""}, "CARREL_UNHEARD_OF"),
        # incomplete
        ({"CARREL_S3_BUCKET": "x"}, "CARREL_S3_ACCESS_KEY_ID"),
        ({"CARREL_S3_BUCKET": "x"}, "CARREL_S3_SECRET_ACCESS_KEY"),
        ({"CARREL_S3_BUCKET": "x", "CARREL_S3_ACCESS_KEY_ID": "y"}, "CARREL_S3_SECRET_ACCESS_KEY"),
        ({"CARREL_S3_SECRET_ACCESS_KEY": "hidden"}, "CARREL_S3_BUCKET"),
        ({"CARREL_S3_ENDPOINT_URL": "http://s3:9000"}, "CARREL_S3_BUCKET"),
        ({"CARREL_S3_REGION": "eu-west-1"}, "CARREL_S3_BUCKET"),
        ({"CARREL_EMBEDDING_BASE_URL": "http://models/v1"}, "CARREL_EMBEDDING_DIMENSIONS"),
        ({"CARREL_EMBEDDING_DIMENSIONS": "8"}, "CARREL_EMBEDDING_BASE_URL"),
        (
            {"CARREL_EMBEDDING_BASE_URL": "http://models/v1", "CARREL_EMBEDDING_DIMENSIONS": "8"},
            "CARREL_EMBEDDING_MODEL must be set",
        ),
        ({**ENDPOINT, "CARREL_EMBEDDING_LOCAL": "/models/m"}, "CARREL_EMBEDDING_LOCAL is not for"),
        ({**ENDPOINT, "CARREL_EMBEDDING_PRECISION": "int8"}, "CARREL_EMBEDDING_PRECISION is not for"),
        ({"CARREL_EMBEDDING_POOLING": "mean"}, "CARREL_EMBEDDING_POOLING is not for bge-small-en-v1.5"),
        ({"CARREL_EMBEDDING_MAX_TOKENS": "128"}, "CARREL_EMBEDDING_MAX_TOKENS is not for bge-small-en-v1.5"),
        ({"CARREL_EMBEDDING_LOCAL": "m", "CARREL_EMBEDDING_MODEL": "n"}, "CARREL_EMBEDDING_MODEL is not for"),
        ({"CARREL_EMBEDDING_LOCAL": "m", "CARREL_EMBEDDING_PRECISION": "int8"}, "CARREL_EMBEDDING_PRECISION is not"),
        ({"CARREL_EMBEDDING_POOLING": "max"}, "CARREL_EMBEDDING_POOLING"),
        ({"CARREL_EMBEDDING_API_KEY": "hidden"}, "CARREL_EMBEDDING_BASE_URL"),
        ({"CARREL_EMBEDDING_IMAGES": "input"}, "CARREL_EMBEDDING_BASE_URL"),
        ({**ENDPOINT, "CARREL_EMBEDDING_IMAGES": "true"}, "CARREL_EMBEDDING_IMAGES"),
        # HTTP sources
        (
            {"CARREL_HTTP_SOURCE_HOSTS": "hidden.example"},
            "CARREL_HTTP_SOURCE_HOSTS was replaced by CARREL_HTTP_SOURCES",
        ),
        ({"CARREL_HTTP_SOURCE_SECRETS": "{}"}, "CARREL_HTTP_SOURCE_SECRETS was replaced by CARREL_HTTP_SOURCES"),
        ({"CARREL_HTTP_SOURCES": "hidden"}, "CARREL_HTTP_SOURCES: must be a JSON list"),
        ({"CARREL_HTTP_SOURCES": "[" * 100_000}, "CARREL_HTTP_SOURCES: must be a JSON list"),
        ({"CARREL_HTTP_SOURCES": '{"url": "hidden"}'}, "CARREL_HTTP_SOURCES: input should be a valid"),
        ({"CARREL_HTTP_SOURCES": '["hidden"]'}, "CARREL_HTTP_SOURCES.0: input should be"),
        (binding(url="https://hidden.example"), "CARREL_HTTP_SOURCES.0.url: needs a path"),
        (binding(url="*.hidden.example/"), "CARREL_HTTP_SOURCES.0.url: takes an address"),
        (binding(url="https://user@hidden.example/"), "CARREL_HTTP_SOURCES.0.url: takes an address"),
        (binding(url="https://hidden.example:70000/"), "CARREL_HTTP_SOURCES.0.url: takes an address"),
        (binding(url="https://hidden.example/a?b=c"), "CARREL_HTTP_SOURCES.0.url: takes a path without"),
        (binding(url="https://hidden.example/a/../b"), "CARREL_HTTP_SOURCES.0.url: takes a path without"),
        (binding(tenants=[]), "CARREL_HTTP_SOURCES.0.tenants"),
        (binding(tenants=["hidden"]), "CARREL_HTTP_SOURCES.0.tenants.0: takes ids of tenants"),
        (binding(methods=["PUT"]), "CARREL_HTTP_SOURCES.0.methods.0"),
        (binding(methods=[]), "CARREL_HTTP_SOURCES.0.methods"),
        (binding(headers=["Host"]), "CARREL_HTTP_SOURCES.0.headers.0: takes the name of a header"),
        (binding(headers=["Authorization"]), "CARREL_HTTP_SOURCES.0.headers.0: credentials are sent as a secret"),
        (binding(allow_private="yes"), "CARREL_HTTP_SOURCES.0.allow_private"),
        (binding(hosts=["hidden"]), "CARREL_HTTP_SOURCES.0.hosts: extra inputs are not permitted"),
        (
            binding(secrets={"ONE": {**SECRET, "value": "hidden\nX: y"}}),
            "CARREL_HTTP_SOURCES.0.secrets.ONE.value: a secret",
        ),
        (binding(secrets={"ONE": {"value": "hidden"}}), "CARREL_HTTP_SOURCES.0.secrets.ONE.header: field required"),
        (
            binding(secrets={"ONE": {**SECRET, "header": "Cookie"}}),
            "CARREL_HTTP_SOURCES.0.secrets.ONE.header: takes the name",
        ),
        (binding(secrets={"ONE": "hidden"}), "CARREL_HTTP_SOURCES.0.secrets.ONE: input should be"),
        # the list of models
        ({"CARREL_EMBEDDING_MODELS": "hidden"}, "CARREL_EMBEDDING_MODELS: must be a JSON list of models"),
        ({"CARREL_EMBEDDING_MODELS": '{"model": "hidden"}'}, "CARREL_EMBEDDING_MODELS: input should be a valid"),
        (models(FURTHER, "hidden"), "CARREL_EMBEDDING_MODELS.1: input should be"),
        (models(FURTHER, {**FURTHER, "dimensions": 0}), "CARREL_EMBEDDING_MODELS.1.dimensions: input should be"),
        (models({**FURTHER, "dimensions": 4001}), "CARREL_EMBEDDING_MODELS.0.dimensions: input should be less"),
        (models({**FURTHER, "url": "hidden"}), "CARREL_EMBEDDING_MODELS.0.url: extra inputs are not permitted"),
        (models({**FURTHER, "base_url": "hidden"}), "CARREL_EMBEDDING_MODELS.0.base_url: must be an http"),
        (models({**FURTHER, "precision": "int8"}), "CARREL_EMBEDDING_MODELS.0: precision is a local model's"),
        (models({"model": "m", "dimensions": 8}), "CARREL_EMBEDDING_MODELS.0: base_url must be set too"),
        (models({"base_url": "http://m/v1", "dimensions": 8}), "CARREL_EMBEDDING_MODELS.0: model must be set too"),
        (models({"base_url": "http://m/v1", "model": "m"}), "CARREL_EMBEDDING_MODELS.0: dimensions must be set too"),
        (models({**FURTHER, "provider": "x"}), "CARREL_EMBEDDING_MODELS.0.provider: input should be 'embedded'"),
        (models({"provider": "embedded", "dimensions": 8}), "CARREL_EMBEDDING_MODELS.0: dimensions is not for a"),
        (models({**FURTHER, "api_key": "hidden"}), "CARREL_EMBEDDING_MODELS.0: takes no api_key, but api_key_env"),
        (models({**FURTHER, "api_key_env": "hidden"}), "CARREL_EMBEDDING_MODELS.0: api_key_env names a variable that"),
        ({**models({**FURTHER, "api_key_env": "A_KEY"}), "A_KEY": ""}, "api_key_env names a variable that is not set"),
        ({**models(FURTHER), "CARREL_OTHER_KEY": "hidden"}, "CARREL_OTHER_KEY"),
        ({"CARREL_VISION_MODEL": "looker"}, "CARREL_CHAT_BASE_URL"),
        ({"CARREL_REWRITE_MODEL": "writer"}, "CARREL_CHAT_BASE_URL"),
        ({"CARREL_CHAT_TIMEOUT_SECONDS": "0"}, "CARREL_CHAT_TIMEOUT_SECONDS"),
        ({"CARREL_ANSWER_MAX_TOKENS": "0"}, "CARREL_ANSWER_MAX_TOKENS"),
        ({"CARREL_ANSWER_FIRST_TOKEN_TIMEOUT_SECONDS": "soon"}, "CARREL_ANSWER_FIRST_TOKEN_TIMEOUT_SECONDS"),
        # quotas
        ({"CARREL_DEFAULT_QUOTAS": "hidden"}, "CARREL_DEFAULT_QUOTAS: must be a JSON object of quotas"),
        ({"CARREL_DEFAULT_QUOTAS": "3"}, "CARREL_DEFAULT_QUOTAS: input should be"),
        ({"CARREL_DEFAULT_QUOTAS": '{"wishes": 3}'}, "CARREL_DEFAULT_QUOTAS.wishes: extra inputs are not permitted"),
        ({"CARREL_DEFAULT_QUOTAS": '{"documents": -1}'}, "CARREL_DEFAULT_QUOTAS.documents: input should be"),
        # tokens
        ({"CARREL_AUTH_FAILURES_PER_MINUTE": "0"}, "CARREL_AUTH_FAILURES_PER_MINUTE"),
        ({"CARREL_OIDC_ISSUER": "https://login.example"}, "CARREL_OIDC_AUDIENCE"),
        ({"CARREL_OIDC_AUDIENCE": "carrel"}, "CARREL_OIDC_ISSUER"),
        ({**OIDC, "CARREL_OIDC_ISSUER": "login.example"}, "CARREL_OIDC_ISSUER"),
        ({**OIDC, "CARREL_OIDC_ISSUER": "https://login.example/?a=b"}, "CARREL_OIDC_ISSUER"),
        ({**OIDC, "CARREL_OIDC_JWKS_URL": "file:///keys"}, "CARREL_OIDC_JWKS_URL"),
        ({"CARREL_OIDC_JWKS_URL": "https://login.example/keys"}, "CARREL_OIDC_ISSUER"),
        ({"CARREL_OIDC_USER_CLAIM": "sub"}, "CARREL_OIDC_ISSUER"),
        ({"CARREL_OIDC_KNOWLEDGE_BASES_CLAIM": "kbs"}, "CARREL_OIDC_ISSUER"),
    ],
)
def test_settings_invalid_value_stops_with_one_line(
    environment: Environment, variables: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        environment.load(variables)
    message = str(caught.value)
    assert named in message
    assert "\n" not in message
    assert "hidden" not in message


@pytest.mark.parametrize("name", sorted(list_variables() - {"CARREL_S3_ENDPOINT_URL"}))
def test_settings_empty_variable_counts_as_unset(environment: Environment, name: str) -> None:
    assert environment.load({name: ""}) == environment.load({})


def test_settings_plugin_embedder_needs_no_endpoint(environment: Environment) -> None:
    given = {"PROVIDER": "hashing", "MODEL": "of-the-plugin", "API_KEY": "x" * 8}
    settings = environment.load({f"CARREL_EMBEDDING_{name}": value for name, value in given.items()})
    assert (settings.embedding.provider, settings.embedding.model) == ("hashing", "of-the-plugin")


def test_settings_further_models_read_keys_of_their_variables(environment: Environment) -> None:
    listed = models({**FURTHER, "api_key_env": "CARREL_further_key"}, {"provider": "embedded", "precision": "int8"})
    settings = environment.load({**listed, "CARREL_further_key": "hidden-key"})
    endpoint, embedded = settings.embedding.models
    assert (endpoint.base_url, endpoint.dimensions, endpoint.max_tokens) == ("http://models:2/v1", 16, 8191)
    assert endpoint.api_key is not None
    assert endpoint.api_key.get_secret_value() == "hidden-key"
    assert "hidden" not in f"{settings!r} {settings.model_dump()} {settings.model_dump_json()}"
    assert (embedded.provider, embedded.model, embedded.precision) == ("embedded", "bge-small-en-v1.5", "int8")


def test_settings_environment_key_overrides_file(environment: Environment) -> None:
    environment.file.write_text("CARREL_FURTHER_KEY=of-the-file\n")
    listed = models({**FURTHER, "api_key_env": "CARREL_FURTHER_KEY"})
    (endpoint,) = environment.load({**listed, "CARREL_FURTHER_KEY": "of-the-process"}).embedding.models
    assert endpoint.api_key is not None
    assert endpoint.api_key.get_secret_value() == "of-the-process"


ADDRESSES = {
    "CARREL_EMBEDDING_API_KEY": (
        "CARREL_EMBEDDING_BASE_URL",
        {"CARREL_EMBEDDING_DIMENSIONS": "3", "CARREL_EMBEDDING_MODEL": "m"},
    ),
    "CARREL_CHAT_API_KEY": ("CARREL_CHAT_BASE_URL", {"CARREL_CHAT_MODEL": "m"}),
    "CARREL_RERANK_API_KEY": ("CARREL_RERANK_URL", {}),
    "CARREL_S3_SECRET_ACCESS_KEY": (
        "CARREL_S3_ENDPOINT_URL",
        {"CARREL_S3_BUCKET": "b", "CARREL_S3_ACCESS_KEY_ID": "i"},
    ),
}
FILE_AND_PROCESS = ["the file", "the process"]


@pytest.mark.parametrize("of_key", FILE_AND_PROCESS)
@pytest.mark.parametrize("of_address", FILE_AND_PROCESS)
@pytest.mark.parametrize("secret", ADDRESSES)
def test_settings_key_and_address_from_different_sources_are_refused(
    environment: Environment, secret: str, of_key: str, of_address: str
) -> None:
    address, others = ADDRESSES[secret]
    places: dict[str, dict[str, str]] = {"the file": {}, "the process": {}}
    places[of_key] |= {secret: "hidden-key", **({} if "S3" not in secret else {"CARREL_S3_ACCESS_KEY_ID": "i"})}
    places[of_address] |= {address: "http://models:1/v1"}
    places["the process"] |= {name: value for name, value in others.items() if name not in places["the file"]}
    if "S3" in secret:
        places["the process"].pop("CARREL_S3_ACCESS_KEY_ID", None) if of_key == "the file" else None
    environment.file.write_text("".join(f"{name}={value}\n" for name, value in places["the file"].items()))
    if of_key == of_address:
        environment.load(places["the process"])
        return
    with pytest.raises(SettingsError, match=f"{address}.*set both in the same place") as refused:
        environment.load(places["the process"])
    assert "hidden" not in str(refused.value)
    # The environment can set the path of the file.
    environment.load({"CARREL_ENV_FILE": str(environment.file)})


def test_settings_every_secret_has_its_address() -> None:
    """A new secret is in ``ADDRESS_BY_SECRET``, or holds its address in the same variable, or is never sent."""
    alone = {"CARREL_OPERATOR_KEY", "CARREL_DATABASE_URL", "CARREL_ADMIN_DATABASE_URL"}
    secrets = {
        get_variable_name(field)
        for group in GROUPS.values()
        for field in group.model_fields.values()
        if "SecretStr" in str(field.annotation)
    }
    assert secrets - alone <= {f"CARREL_{name}" for name in ADDRESS_BY_SECRET}
    assert {f"CARREL_{name}" for pair in ADDRESS_BY_SECRET.items() for name in pair} <= list_variables()


def test_settings_a_list_of_models_in_the_file_gets_no_key_of_the_process(environment: Environment) -> None:
    [(name, listed)] = models({**FURTHER, "api_key_env": "ANYTHING_SECRET"}).items()
    environment.file.write_text(f"{name}={listed}\n")
    with pytest.raises(SettingsError, match="ANYTHING_SECRET comes from the environment"):
        environment.load({"ANYTHING_SECRET": "hidden"})


def test_settings_file_values_are_literal(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEBODYS_SECRET", "hidden")
    environment.file.write_text("CARREL_CHAT_BASE_URL=http://x/${SOMEBODYS_SECRET}\nCARREL_CHAT_MODEL=m\n")
    assert environment.load({}).models.chat_base_url == "http://x/${SOMEBODYS_SECRET}"


def test_settings_file_can_be_named_or_left_out(environment: Environment, tmp_path: Path) -> None:
    environment.file.write_text("CARREL_PORT=9001\n")
    named = tmp_path / "other"
    named.write_text("CARREL_PORT=9002\n")
    assert environment.load({}).server.port == 9001
    assert environment.load({"CARREL_ENV_FILE": ""}).server.port == 8000
    assert environment.load({"CARREL_ENV_FILE": str(named)}).server.port == 9002
    with pytest.raises(SettingsError, match="does not exist"):
        environment.load({"CARREL_ENV_FILE": str(tmp_path / "nothing")})
    named.write_bytes(b"CARREL_HOST=\xff\n")
    with pytest.raises(SettingsError, match="UTF-8"):
        environment.load({"CARREL_ENV_FILE": str(named)})


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_settings_file_that_is_no_file_is_refused_at_once(
    environment: Environment, make: Callable[[Path], None]
) -> None:
    make(environment.file)
    with pytest.raises(SettingsError, match="it is not a regular file"):
        environment.load({})


def test_load_settings_old_variable_names_the_new_one(environment: Environment) -> None:
    with pytest.raises(SettingsError) as caught:
        environment.load({"CARREL_LANE_ROWS": "100"})
    assert str(caught.value) == "CARREL_LANE_ROWS is called CARREL_RETRIEVER_CANDIDATES now."


@pytest.mark.parametrize(("old", "new"), RENAMED_VARIABLES.items())
def test_load_settings_old_variable_in_file_names_the_new_one(environment: Environment, old: str, new: str) -> None:
    assert f"CARREL_{new}" in list_variables()
    assert f"CARREL_{old}" not in list_variables()
    environment.file.write_text(f"CARREL_{old.lower()}=hidden\n")
    with pytest.raises(SettingsError) as caught:
        environment.load({})
    assert str(caught.value) == f"CARREL_{old} is called CARREL_{new} now."


def test_load_settings_several_old_variables_names_all_in_one_line(environment: Environment) -> None:
    old = {"CARREL_PUBLICATION": "true", "CARREL_CLIENT_SECONDS": "30", "CARREL_AAA": "unknown"}
    with pytest.raises(SettingsError) as caught:
        environment.load(old)
    assert str(caught.value) == (
        "CARREL_CLIENT_SECONDS is called CARREL_CLIENT_TIMEOUT_SECONDS now; "
        "CARREL_PUBLICATION is called CARREL_SQL_VIEWS now."
    )


OLD_KEYS = [(variable, old, new) for variable, keys in RENAMED_KEYS.items() for old, new in keys.items()]


@pytest.mark.parametrize(("variable", "old", "new"), OLD_KEYS)
def test_load_settings_every_old_json_key_names_the_new_one(
    environment: Environment, variable: str, old: str, new: str
) -> None:
    source = {"url": "https://search.example.com/search", "tenants": ["*"]}
    entries: dict[str, dict[str, Any]] = {"EMBEDDING_MODELS": FURTHER, "HTTP_SOURCES": source}
    value: Any = [{**entries[variable], old: 1}] if variable in entries else {old: 1}
    with pytest.raises(SettingsError, match=rf"^CARREL_{variable}\.(0\.)?{old} is called {new} now\.$"):
        environment.load({f"CARREL_{variable}": json.dumps(value)})


def test_list_variables_durations_end_in_timeout_or_interval() -> None:
    # The age of an object and the period of a rollback are neither a timeout nor an interval.
    others = {"CARREL_WORKER_ORPHAN_AGE_SECONDS", "CARREL_REINDEX_ROLLBACK_SECONDS"}
    endings = ("_TIMEOUT_SECONDS", "_INTERVAL_SECONDS")
    assert {name for name in list_variables() if name.endswith("_SECONDS") and not name.endswith(endings)} == others


def test_documents_name_only_variables_that_exist() -> None:
    known = list_variables() | EXTERNAL_VARIABLES | {f"CARREL_{name}" for name in REPLACED_VARIABLES}
    root = EXAMPLE.parent
    pages = [*root.glob("docs/**/*.md"), *root.glob("*.md"), *root.glob("deploy/*"), root / "Makefile", EXAMPLE]
    pages.append(root / "docker-compose.yml")
    unknown = {
        (page.name, name)
        for page in pages
        if page.name != "CHANGELOG.md"
        for name in re.findall(r"\bCARREL_[A-Z0-9_]*[A-Z0-9]\b(?!_?[*…])", page.read_text())
        if name not in known
    }
    assert unknown == set()


def test_settings_issuer_is_stored_unchanged(environment: Environment) -> None:
    identity = environment.load({**OIDC, "CARREL_OIDC_USER_CLAIM": "sub"}).identity
    assert (identity.oidc_issuer, identity.oidc_user_claim) == ("https://login.example/", "sub")
    assert (identity.oidc_tenant_claim, identity.oidc_knowledge_bases_claim) == ("carrel_tenant", None)


def test_settings_repr_shows_no_secret(environment: Environment) -> None:
    settings = environment.load(
        {
            **S3,
            **ENDPOINT,
            "CARREL_EMBEDDING_API_KEY": "hidden-model-key",
            "CARREL_OPERATOR_KEY": "hidden-operator-key-of-32-characters",
            "CARREL_DATABASE_URL": "postgresql://app:hidden-1@db/carrel",
            "CARREL_ADMIN_DATABASE_URL": "postgresql://owner:hidden-2@db/carrel",
        }
    )
    assert "hidden" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert settings.database.url is not None
    assert settings.database.url.get_secret_value() == "postgresql://app:hidden-1@db/carrel"
    assert settings.embedding.base_url == "http://models:1/v1"


def test_settings_environment_overrides_file(environment: Environment) -> None:
    environment.file.write_text("CARREL_PORT=9001\nCARREL_HOST=10.0.0.1\nPOSTGRES_PASSWORD=x\nCARREL_URL=http://x\n")
    settings = environment.load({"CARREL_PORT": "9002"})
    assert (settings.server.port, settings.server.host) == (9002, "10.0.0.1")


def test_settings_unknown_name_in_file_is_refused(environment: Environment) -> None:
    environment.file.write_text("CARREL_PROT=9001\n")
    with pytest.raises(SettingsError, match="CARREL_PROT"):
        environment.load({})


def test_settings_command_line_overrides_environment_and_file(environment: Environment) -> None:
    environment.file.write_text("CARREL_PORT=9001\n")
    settings = environment.load({"CARREL_PORT": "9002"}, server={"CARREL_PORT": 9003})
    assert settings.server.port == 9003
    with pytest.raises(SettingsError, match="CARREL_PORT"):
        environment.load({}, server={"CARREL_PORT": -1})


def test_settings_data_directory_is_absolute(environment: Environment) -> None:
    assert environment.load({}).server.data_dir == environment.file.parent / ".carrel"
    assert environment.load({"CARREL_DATA_DIR": "~/x"}).server.data_dir == Path.home() / "x"


def test_settings_lists_are_separated_by_commas(environment: Environment) -> None:
    settings = environment.load({"CARREL_CORS_ORIGINS": "https://a.example, https://b.example,"})
    assert settings.server.cors_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize("given", ["deu,eng,chi_sim", "deu+eng+chi_sim", " deu, eng , chi_sim,deu"])
def test_settings_languages_are_separated_by_commas_or_plus_signs(environment: Environment, given: str) -> None:
    assert environment.load({"CARREL_OCR_LANGUAGES": given}).parser.ocr_languages == ("deu", "eng", "chi_sim")


def test_settings_tessdata_prefix_is_the_default(environment: Environment) -> None:
    own = {"TESSDATA_PREFIX": "/opt/tessdata"}
    assert environment.load(own).parser.tessdata_dir == Path("/opt/tessdata")
    both = {**own, "CARREL_TESSDATA_DIR": "data"}
    assert environment.load(both).parser.tessdata_dir == environment.file.parent / "data"


def test_settings_are_frozen(environment: Environment) -> None:
    settings = environment.load({})
    for target, field in ((settings, "server"), (settings.server, "port")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(target, field, 1)
