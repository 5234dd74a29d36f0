"""Settings: typed, grouped, frozen, read once from ``CARREL_*`` variables and from the settings file."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

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
from pydantic_settings import NoDecode

from app.settings.answers import AnswerSettings
from app.settings.audit import AuditSettings
from app.settings.deletion import DeletionSettings
from app.settings.embedding import AdditionalEmbeddingModel, EmbeddingSettings
from app.settings.environment import ENV_FILE, SettingsError, get_user_cache_dir, read_environment
from app.settings.http_sources import HttpSourceSettings
from app.settings.identity import IdentitySettings
from app.settings.origins import check_secret_sources
from app.settings.quotas import KeyLimits, QuotaLimits, QuotaSettings
from app.settings.renames import explain_renamed_variables, find_new_key
from app.settings.rerank import RerankSettings
from app.settings.settings_group import (
    PREFIX,
    HttpUrl,
    PostgresUrl,
    SettingsGroup,
    env_field,
    get_variable_name,
    make_absolute,
)
from app.settings.sql_views import SqlViewSettings
from app.settings.transfers import TransferSettings
from app.settings.webhook_delivery import WebhookSettings

__all__ = [
    "EXTERNAL_VARIABLES",
    "GROUPS",
    "AdditionalEmbeddingModel",
    "AnswerSettings",
    "AuditSettings",
    "DatabaseSettings",
    "DeletionSettings",
    "EmbeddingSettings",
    "HttpSourceSettings",
    "HttpUrl",
    "IdentitySettings",
    "KeyLimits",
    "ModelSettings",
    "ObjectStoreSettings",
    "ParserSettings",
    "QuotaLimits",
    "QuotaSettings",
    "RerankSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "SettingsGroup",
    "SqlViewSettings",
    "TransferSettings",
    "WebhookSettings",
    "WorkerSettings",
    "get_user_cache_dir",
    "get_variable_name",
    "list_variables",
    "load_settings",
]


# As browsers send it: a scheme, a host in small letters, and a port where it is not the scheme's own.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")


class ServerSettings(SettingsGroup):
    """Settings of the server: address, data directory, limits of clients."""

    data_dir: Annotated[Path, AfterValidator(make_absolute)] = env_field(
        "DATA_DIR", Path(".carrel"), validate_default=True
    )
    host: str = env_field("HOST", "127.0.0.1")
    port: int = env_field("PORT", 8000, ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = env_field("LOG_LEVEL", "info")
    operator_key: SecretStr | None = env_field("OPERATOR_KEY", None, min_length=32)
    cors_origins: Annotated[tuple[str, ...], NoDecode] = env_field("CORS_ORIGINS", ())
    retriever_candidates: int = env_field("RETRIEVER_CANDIDATES", 100, ge=1, le=1000)
    max_upload_bytes: int = env_field("MAX_UPLOAD_BYTES", 500 * 1024 * 1024, ge=1024)
    client_timeout_seconds: int = env_field("CLIENT_TIMEOUT_SECONDS", 30, ge=1, le=3600)
    keep_alive_timeout_seconds: int = env_field("KEEP_ALIVE_TIMEOUT_SECONDS", 5, ge=1, le=3600)
    max_connections_per_address: int = env_field("MAX_CONNECTIONS_PER_ADDRESS", 1000, ge=1, le=1_000_000)

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value != ("*",) and not all(_ORIGIN.fullmatch(origin) for origin in value):
            raise ValueError("takes origins as browsers send them, such as https://app.example.com, or * alone")
        return value


class DatabaseSettings(SettingsGroup):
    """The URLs of the two database roles; without both, the embedded Postgres."""

    url: PostgresUrl | None = env_field("DATABASE_URL", None)
    admin_url: PostgresUrl | None = env_field("ADMIN_DATABASE_URL", None)
    pool_size: int = env_field("DATABASE_POOL_SIZE", 10, ge=1, le=200)

    @model_validator(mode="after")
    def _require_url(self) -> Self:
        """Refuse the owner's URL alone: the service would use its embedded database while another one is migrated."""
        if self.admin_url is not None and self.url is None:
            raise ValueError(f"{PREFIX}DATABASE_URL must be set if {PREFIX}ADMIN_DATABASE_URL is")
        return self


class ObjectStoreSettings(SettingsGroup):
    """S3 if a bucket is named, else files below the data directory."""

    required_together = ("bucket", "access_key_id", "secret_access_key")
    bucket: str | None = env_field("S3_BUCKET", None)
    endpoint_url: HttpUrl | None = env_field("S3_ENDPOINT_URL", None)
    public_endpoint_url: HttpUrl | None = env_field("S3_PUBLIC_ENDPOINT_URL", None)
    access_key_id: str | None = env_field("S3_ACCESS_KEY_ID", None)
    secret_access_key: SecretStr | None = env_field("S3_SECRET_ACCESS_KEY", None)
    region: str | None = env_field("S3_REGION", None)

    @model_validator(mode="after")
    def _require_bucket(self) -> Self:
        if self.bucket is None and (self.endpoint_url or self.public_endpoint_url or self.region):
            raise ValueError(f"{PREFIX}S3_BUCKET must be set too")
        return self


class ModelSettings(SettingsGroup):
    """Chat and vision models at one endpoint: one describes images, the other rewrites and answers questions."""

    required_together = ("chat_base_url", "chat_model")
    chat_base_url: HttpUrl | None = env_field("CHAT_BASE_URL", None)
    chat_api_key: SecretStr | None = env_field("CHAT_API_KEY", None)
    chat_model: str | None = env_field("CHAT_MODEL", None)
    chat_timeout_seconds: float = env_field("CHAT_TIMEOUT_SECONDS", 60.0, gt=0, le=600)
    rewrite_model: str | None = env_field("REWRITE_MODEL", None)
    vision_model: str | None = env_field("VISION_MODEL", None)

    @model_validator(mode="after")
    def _require_base_url(self) -> Self:
        for name, model in {"REWRITE_MODEL": self.rewrite_model, "VISION_MODEL": self.vision_model}.items():
            if model is not None and self.chat_base_url is None:
                raise ValueError(f"{PREFIX}{name} needs {PREFIX}CHAT_BASE_URL")
        return self


class ParserSettings(SettingsGroup):
    """Limits of the processes that read untrusted files, and their OCR languages."""

    processes: int = env_field("PARSER_PROCESSES", 0, ge=0, le=64)
    max_memory_mb: int = env_field("PARSER_MAX_MEMORY_MB", 1500, ge=256)
    cpu_timeout_seconds: int = env_field("PARSER_CPU_TIMEOUT_SECONDS", 120, ge=1)
    timeout_seconds: int = env_field("PARSER_TIMEOUT_SECONDS", 180, ge=1)
    max_pages: int = env_field("PARSER_MAX_PAGES", 5000, ge=1)
    max_characters: int = env_field("PARSER_MAX_CHARACTERS", 20_000_000, ge=1000)
    ocr_languages: Annotated[tuple[str, ...], NoDecode] = env_field("OCR_LANGUAGES", ("eng",))
    tessdata_dir: Annotated[Path, AfterValidator(make_absolute)] | None = Field(
        None, validation_alias=AliasChoices(PREFIX + "TESSDATA_DIR", "TESSDATA_PREFIX")
    )  # the latter is Tesseract's own

    @field_validator("ocr_languages", mode="before")
    @classmethod
    def _parse_languages(cls, value: Any) -> Any:
        """Return each language once, in the given order; Tesseract tries the first one first."""
        if not isinstance(value, str):
            return value
        names = [name.strip() for name in value.replace("+", ",").split(",")]
        if not all(re.fullmatch("[a-z_]{3,}", name) for name in names):
            raise ValueError("takes Tesseract's names of languages, such as eng or eng,chi_sim")
        return tuple(dict.fromkeys(names))


class WorkerSettings(SettingsGroup):
    """Settings of the worker: concurrency, leases, intervals of periodic jobs."""

    concurrency: int = env_field("WORKER_CONCURRENCY", 2, ge=1, le=64)
    tenant_concurrency: int = env_field("WORKER_TENANT_CONCURRENCY", 2, ge=1, le=1000)
    extra_jobs: int = env_field("WORKER_EXTRA_JOBS", 2, ge=0, le=64)
    webhook_concurrency: int = env_field("WORKER_WEBHOOK_CONCURRENCY", 4, ge=1, le=64)
    heartbeat_timeout_seconds: int = env_field("WORKER_HEARTBEAT_TIMEOUT_SECONDS", 60, ge=5, le=3600)
    lease_timeout_seconds: int = env_field("WORKER_LEASE_TIMEOUT_SECONDS", 30, ge=2)
    max_attempts: int = env_field("WORKER_MAX_ATTEMPTS", 5, ge=1, le=50)
    expiry_interval_seconds: int = env_field("WORKER_EXPIRY_INTERVAL_SECONDS", 60, ge=1, le=86_400)
    sweep_interval_seconds: int = env_field("WORKER_SWEEP_INTERVAL_SECONDS", 3600, ge=1, le=604_800)
    orphan_age_seconds: int = env_field("WORKER_ORPHAN_AGE_SECONDS", 3600, ge=1)
    maintenance_interval_seconds: int = env_field("WORKER_MAINTENANCE_INTERVAL_SECONDS", 60, ge=1, le=86_400)
    hnsw_threshold: int = env_field("HNSW_THRESHOLD", 20_000, ge=1)
    reindex_rollback_seconds: int = env_field("REINDEX_ROLLBACK_SECONDS", 86_400, ge=0, le=31_536_000)


class Settings(BaseModel):
    """All groups of settings."""

    model_config = ConfigDict(frozen=True)

    server: ServerSettings
    identity: IdentitySettings
    database: DatabaseSettings
    object_store: ObjectStoreSettings
    embedding: EmbeddingSettings
    models: ModelSettings
    answers: AnswerSettings
    rerank: RerankSettings
    http_sources: HttpSourceSettings
    sql_views: SqlViewSettings
    parser: ParserSettings
    worker: WorkerSettings
    quotas: QuotaSettings
    transfers: TransferSettings
    audit: AuditSettings
    deletion: DeletionSettings
    webhooks: WebhookSettings


GROUPS: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
# In no group: which file is read, and what programs around the service read: evaluation data, client commands.
EXTERNAL_VARIABLES = {ENV_FILE, PREFIX + "EVAL_DATA", PREFIX + "URL", PREFIX + "API_KEY"}


def list_variables() -> set[str]:
    """Return every ``CARREL_*`` variable that the service reads."""
    return {get_variable_name(field) for group in GROUPS.values() for field in group.model_fields.values()}


def load_settings(**overrides: dict[str, Any]) -> Settings:
    """Read the environment; ``overrides`` are ``group={"FIELD ALIAS": value}``, from the command line.

    Raises SettingsError with one line that names the variable: wrong, unknown, or given in part.
    """
    values = {name.upper(): value for name, value in read_environment().items()}
    # The keys of further models are in variables of any name, which the list of models gives.
    key_variables = set(re.findall(r"\w+", values.get(f"{PREFIX}EMBEDDING_MODELS", "").upper()))
    unknown = sorted(
        {name for name in values if name.startswith(PREFIX)} - list_variables() - EXTERNAL_VARIABLES - key_variables
    )
    if explanation := explain_renamed_variables(unknown):
        raise SettingsError(explanation)
    if unknown:
        raise SettingsError(f"unknown setting {unknown[0]}; .env.example lists the known ones")
    check_secret_sources()
    groups: dict[str, Any] = {}
    for name, group in GROUPS.items():
        try:
            groups[name] = group(**overrides.get(name, {}))
        except ValidationError as exc:
            raise SettingsError(_format_error(exc, group)) from None
    return Settings(**groups)


def _format_error(error: ValidationError, group: type[SettingsGroup]) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message if message.startswith(PREFIX) else f"{group.__name__}: {message}"
    location = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden" and (new_key := find_new_key(str(first["loc"][0]), str(first["loc"][-1]))):
        return f"{location} is called {new_key} now."
    return f"{location}: {message[0].lower()}{message[1:]}"
