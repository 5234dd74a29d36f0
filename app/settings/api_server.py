"""Settings of the server: its address, its data directory and the limits of its clients."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, SecretStr, field_validator
from pydantic_settings import NoDecode

from app.settings.settings_group import SettingsGroup, env_field, make_absolute

# An origin in the form that browsers send: scheme, lower-case host, and the port unless it is the scheme's default.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")


class ServerSettings(SettingsGroup):
    """Server: address, data directory, log level, operator key and limits of clients."""

    data_dir: Annotated[Path, AfterValidator(make_absolute)] = env_field(
        "DATA_DIR",
        Path(".carrel"),
        validate_default=True,
        description="Directory of the service's files: embedded database, stored objects, generated operator key.",
        read_by="API and worker",
    )
    host: str = env_field(
        "HOST",
        "127.0.0.1",
        description="IP address that the API listens on. 0.0.0.0 listens on every IPv4 address of the machine.",
        read_by="API",
    )
    port: int = env_field(
        "PORT",
        8000,
        ge=0,
        le=65535,
        description="TCP port that the API listens on. 0 selects a free port.",
        read_by="API",
    )
    log_level: Literal["debug", "info", "warning", "error"] = env_field(
        "LOG_LEVEL",
        "info",
        description="Lowest level of log events that are written.",
        read_by="API and worker",
    )
    operator_key: SecretStr | None = env_field(
        "OPERATOR_KEY",
        None,
        min_length=32,
        unit="characters",
        description="API key of the operator, who manages tenants. If it is not set, the first start generates a key "
        "in the data directory.",
        read_by="API",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = env_field(
        "CORS_ORIGINS",
        (),
        description="Origins whose web pages may call the API, separated by commas. * allows every origin. "
        "By default no origin is allowed.",
        examples=["https://app.example.com,https://intranet.example.com"],
        read_by="API",
    )
    retriever_candidates: int = env_field(
        "RETRIEVER_CANDIDATES",
        100,
        ge=1,
        le=1000,
        unit="chunks",
        description="Number of candidates that each retriever returns. A search that requests more results raises it "
        "for that search.",
        read_by="API",
    )
    max_rewritten_sources: int = env_field(
        "MAX_REWRITTEN_SOURCES",
        8,
        ge=0,
        le=100,
        unit="knowledge bases",
        description="Number of knowledge bases of one search whose transformers rewrite the queries. The others are "
        "searched with the common queries, with a warning.",
        read_by="API",
    )
    max_upload_bytes: int = env_field(
        "MAX_UPLOAD_BYTES",
        500 * 1024 * 1024,
        ge=1024,
        unit="bytes",
        description="Maximum size of an uploaded file.",
        read_by="API",
    )
    client_timeout_seconds: int = env_field(
        "CLIENT_TIMEOUT_SECONDS",
        30,
        ge=1,
        le=3600,
        unit="seconds",
        description="Maximum time for a client to send the head of a request or 4 KB of its body, or to read more of "
        "a response. A slower connection is closed.",
        read_by="API",
    )
    keep_alive_timeout_seconds: int = env_field(
        "KEEP_ALIVE_TIMEOUT_SECONDS",
        5,
        ge=1,
        le=3600,
        unit="seconds",
        description="Time that an idle connection stays open for the next request. Behind a load balancer, set it "
        "longer than the load balancer's own timeout.",
        read_by="API",
    )
    max_connections_per_address: int = env_field(
        "MAX_CONNECTIONS_PER_ADDRESS",
        1000,
        ge=1,
        le=1_000_000,
        unit="connections",
        description="Maximum number of open connections from one IP address. The proxies that FORWARDED_ALLOW_IPS "
        "names (default 127.0.0.1) have no such limit.",
        read_by="API",
    )

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value != ("*",) and not all(_ORIGIN.fullmatch(origin) for origin in value):
            raise ValueError("takes origins without a path, such as https://app.example.com, or a single *")
        return value
