"""Settings: typed, grouped, frozen, read once from ``CARREL_*`` variables and from ``.env`` where it is started."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "CARREL_"
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


class SettingsError(Exception):
    """A setting is wrong; the message is one line that names it."""


def _http_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError("must be an http or https URL")
    return value.rstrip("/")


def _postgres_url(value: SecretStr) -> SecretStr:
    parts = urlsplit(value.get_secret_value())
    if parts.scheme not in ("postgresql", "postgres", "postgresql+asyncpg"):
        raise ValueError("must begin with postgresql://")
    if not parts.username or not parts.path.strip("/"):
        raise ValueError("must name a user and a database")
    for name, given in parse_qsl(parts.query, keep_blank_values=True):
        if name != "sslmode" or given not in SSL_MODES:
            raise ValueError(f"takes one option, sslmode, which is one of: {', '.join(SSL_MODES)}")
    return value


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


HttpUrl = Annotated[str, AfterValidator(_http_url)]
PostgresUrl = Annotated[SecretStr, AfterValidator(_postgres_url)]


def _env(name: str, default: Any = ..., **limits: Any) -> Any:
    return Field(default, validation_alias=AliasChoices(PREFIX + name), **limits)


class Group(BaseSettings):
    """One group of settings; an empty variable counts as not set."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, env_file=".env")
    required_together: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  (its signature is the library's)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (the same)
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Process environment over ``.env``; no secrets directory."""
        return init_settings, env_settings, dotenv_settings

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Refuse settings that only make sense together and are given in part."""
        given = [name for name in self.required_together if getattr(self, name) is not None]
        missing = [name for name in self.required_together if getattr(self, name) is None]
        if given and missing:
            names = ", ".join(variable(type(self).model_fields[name]) for name in missing)
            raise ValueError(f"{names} must be set too")
        return self


class ServerSettings(Group):
    """Where and how the service runs."""

    data_dir: Annotated[Path, AfterValidator(_absolute)] = _env("DATA_DIR", Path(".carrel"), validate_default=True)
    host: str = _env("HOST", "127.0.0.1")
    port: int = _env("PORT", 8000, ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = _env("LOG_LEVEL", "info")
    operator_key: SecretStr | None = _env("OPERATOR_KEY", None, min_length=32)
    cors_origins: Annotated[tuple[str, ...], NoDecode] = _env("CORS_ORIGINS", ())
    lane_rows: int = _env("LANE_ROWS", 100, ge=1, le=1000)
    max_upload_bytes: int = _env("MAX_UPLOAD_BYTES", 500 * 1024 * 1024, ge=1024)

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


class DatabaseSettings(Group):
    """Two roles, two URLs; neither means the embedded Postgres."""

    url: PostgresUrl | None = _env("DATABASE_URL", None)
    admin_url: PostgresUrl | None = _env("ADMIN_DATABASE_URL", None)
    pool_size: int = _env("DATABASE_POOL_SIZE", 10, ge=1, le=200)

    @model_validator(mode="after")
    def _plain_role_named(self) -> Self:
        """The owner's URL alone would have the service serve from its embedded database while another is migrated."""
        if self.admin_url is not None and self.url is None:
            raise ValueError(f"{PREFIX}DATABASE_URL must be set too, where {PREFIX}ADMIN_DATABASE_URL is")
        return self


class ObjectStoreSettings(Group):
    """S3 where a bucket is named, else files below the data directory."""

    required_together = ("bucket", "access_key_id", "secret_access_key")
    bucket: str | None = _env("S3_BUCKET", None)
    endpoint_url: HttpUrl | None = _env("S3_ENDPOINT_URL", None)
    public_endpoint_url: HttpUrl | None = _env("S3_PUBLIC_ENDPOINT_URL", None)
    access_key_id: str | None = _env("S3_ACCESS_KEY_ID", None)
    secret_access_key: SecretStr | None = _env("S3_SECRET_ACCESS_KEY", None)
    region: str | None = _env("S3_REGION", None)

    @model_validator(mode="after")
    def _bucket_named(self) -> Self:
        if self.bucket is None and (self.endpoint_url or self.public_endpoint_url or self.region):
            raise ValueError(f"{PREFIX}S3_BUCKET must be set too")
        return self


class EmbeddingSettings(Group):
    """A plugin's embedder where one is named, an OpenAI-compatible endpoint where a base URL is given, else MiniLM."""

    required_together = ("base_url", "dimensions")
    provider: str | None = _env("EMBEDDING_PROVIDER", None)
    base_url: HttpUrl | None = _env("EMBEDDING_BASE_URL", None)
    api_key: SecretStr | None = _env("EMBEDDING_API_KEY", None)
    model: str = _env("EMBEDDING_MODEL", "all-MiniLM-L6-v2")
    dimensions: int | None = _env("EMBEDDING_DIMENSIONS", None, ge=1, le=4000)
    send_dimensions: bool = _env("EMBEDDING_SEND_DIMENSIONS", False)
    max_tokens: int = _env("EMBEDDING_MAX_TOKENS", 8191, ge=32)
    query_prefix: str = _env("EMBEDDING_QUERY_PREFIX", "")
    document_prefix: str = _env("EMBEDDING_DOCUMENT_PREFIX", "")
    pictures: Literal["input", "messages"] | None = _env("EMBEDDING_PICTURES", None)
    timeout_seconds: float = _env("EMBEDDING_TIMEOUT_SECONDS", 30.0, gt=0, le=600)
    requests_per_minute: int | None = _env("EMBEDDING_REQUESTS_PER_MINUTE", None, ge=1, le=10_000_000)
    tokens_per_minute: int | None = _env("EMBEDDING_TOKENS_PER_MINUTE", None, ge=1, le=1_000_000_000)
    precision: Literal["fp32", "int8"] = _env("EMBEDDING_PRECISION", "fp32")
    weights_dir: Path | None = _env("EMBEDDING_WEIGHTS_DIR", None)

    @model_validator(mode="after")
    def _one_home(self) -> Self:
        if self.provider is not None:  # a plugin makes of the others what it likes
            return self
        given = {"MODEL": self.model != "all-MiniLM-L6-v2", "API_KEY": self.api_key, "PICTURES": self.pictures}
        for name, value in given.items():
            if self.base_url is None and value:
                raise ValueError(f"{PREFIX}EMBEDDING_{name} needs {PREFIX}EMBEDDING_BASE_URL")
        if self.base_url is None and self.is_paced:
            raise ValueError(f"{PREFIX}EMBEDDING_BASE_URL must be set where there are limits per minute")
        return self

    @property
    def is_paced(self) -> bool:
        """Whether there is a limit per minute."""
        return self.requests_per_minute is not None or self.tokens_per_minute is not None


class ModelSettings(Group):
    """Chat, vision and rerank models; so far only the vision model is used, at the chat model's endpoint."""

    required_together = ("chat_base_url", "chat_model")
    chat_base_url: HttpUrl | None = _env("CHAT_BASE_URL", None)
    chat_api_key: SecretStr | None = _env("CHAT_API_KEY", None)
    chat_model: str | None = _env("CHAT_MODEL", None)
    rewrite_model: str | None = _env("REWRITE_MODEL", None)
    vision_model: str | None = _env("VISION_MODEL", None)
    rerank_url: HttpUrl | None = _env("RERANK_URL", None)
    rerank_api_key: SecretStr | None = _env("RERANK_API_KEY", None)
    rerank_model: str | None = _env("RERANK_MODEL", None)

    @model_validator(mode="after")
    def _vision_has_a_home(self) -> Self:
        if self.vision_model is not None and self.chat_base_url is None:
            raise ValueError(f"{PREFIX}VISION_MODEL needs {PREFIX}CHAT_BASE_URL")
        return self


class ParserSettings(Group):
    """Limits of the processes that read untrusted files, and what they read pictures with."""

    processes: int = _env("PARSER_PROCESSES", 0, ge=0, le=64)
    memory_mb: int = _env("PARSER_MEMORY_MB", 1500, ge=256)
    cpu_seconds: int = _env("PARSER_CPU_SECONDS", 120, ge=1)
    wall_seconds: int = _env("PARSER_WALL_SECONDS", 180, ge=1)
    max_pages: int = _env("PARSER_MAX_PAGES", 5000, ge=1)
    max_characters: int = _env("PARSER_MAX_CHARACTERS", 20_000_000, ge=1000)
    ocr_languages: Annotated[tuple[str, ...], NoDecode] = _env("OCR_LANGUAGES", ("eng",))
    tessdata_dir: Annotated[Path, AfterValidator(_absolute)] | None = Field(
        None, validation_alias=AliasChoices(PREFIX + "TESSDATA_DIR", "TESSDATA_PREFIX")
    )  # the latter is Tesseract's own

    @field_validator("ocr_languages", mode="before")
    @classmethod
    def _languages(cls, value: Any) -> Any:
        """Each once, in the order given; Tesseract tries the first one first."""
        if not isinstance(value, str):
            return value
        names = [name.strip() for name in value.replace("+", ",").split(",")]
        if not all(re.fullmatch("[a-z_]{3,}", name) for name in names):
            raise ValueError("takes Tesseract's names of languages, such as eng or eng,chi_sim")
        return tuple(dict.fromkeys(names))


class WorkerSettings(Group):
    """How the job queue is worked through."""

    concurrency: int = _env("WORKER_CONCURRENCY", 2, ge=1, le=64)
    tenant_concurrency: int = _env("WORKER_TENANT_CONCURRENCY", 2, ge=1, le=1000)
    lease_seconds: int = _env("WORKER_LEASE_SECONDS", 30, ge=2)
    max_attempts: int = _env("WORKER_MAX_ATTEMPTS", 5, ge=1, le=50)
    expiry_seconds: int = _env("WORKER_EXPIRY_SECONDS", 60, ge=1, le=86_400)
    sweep_seconds: int = _env("WORKER_SWEEP_SECONDS", 3600, ge=1, le=604_800)
    orphan_seconds: int = _env("WORKER_ORPHAN_SECONDS", 3600, ge=1)
    maintenance_seconds: int = _env("WORKER_MAINTENANCE_SECONDS", 60, ge=1, le=86_400)
    hnsw_threshold: int = _env("HNSW_THRESHOLD", 20_000, ge=1)


class Settings(BaseModel):
    """All groups."""

    model_config = ConfigDict(frozen=True)

    server: ServerSettings
    database: DatabaseSettings
    object_store: ObjectStoreSettings
    embedding: EmbeddingSettings
    models: ModelSettings
    parser: ParserSettings
    worker: WorkerSettings


GROUPS: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
# Read by programs around the service, not by the service itself: the evaluation data, and the client commands.
FOREIGN = {PREFIX + "EVAL_DATA", PREFIX + "URL", PREFIX + "API_KEY"}


def variable(field: FieldInfo) -> str:
    """The environment variable of a settings field."""
    alias = field.validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else ""


def known_variables() -> set[str]:
    """Every ``CARREL_*`` variable that the service reads."""
    return {variable(field) for group in GROUPS.values() for field in group.model_fields.values()}


def load_settings(**overrides: dict[str, Any]) -> Settings:
    """Read the environment; ``overrides`` are ``group={"FIELD ALIAS": value}``, from the command line.

    Raises SettingsError with one line that names the variable: wrong, unknown, or given in part.
    """
    names = {name.upper() for name in os.environ} | {name.upper() for name in dotenv_values(".env")}
    unknown = sorted({n for n in names if n.startswith(PREFIX)} - known_variables() - FOREIGN)
    if unknown:
        raise SettingsError(f"unknown setting {unknown[0]}; .env.example lists the known ones")
    groups: dict[str, Any] = {}
    for name, group in GROUPS.items():
        try:
            groups[name] = group(**overrides.get(name, {}))
        except ValidationError as exc:
            raise SettingsError(_one_line(exc, group)) from None
    return Settings(**groups)


def _one_line(error: ValidationError, group: type[Group]) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message if message.startswith(PREFIX) else f"{group.__name__}: {message}"
    return f"{first['loc'][0]}: {message[0].lower()}{message[1:]}"


def user_cache_dir() -> Path:
    """Where this user's programs keep what they can fetch again (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if given.startswith("/") else Path.home() / ".cache"
