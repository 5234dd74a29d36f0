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
from app.settings.embedding import EmbeddingSettings, FurtherModel
from app.settings.environment import ENV_FILE, SettingsError, environment, user_cache_dir
from app.settings.group import PREFIX, Group, HttpUrl, PostgresUrl, absolute, env, variable
from app.settings.http_sources import HttpSourceSettings
from app.settings.identity import IdentitySettings
from app.settings.origins import check_origins
from app.settings.publication import PublicationSettings
from app.settings.quotas import KeyLimits, Limits, QuotaSettings
from app.settings.rerank import RerankSettings
from app.settings.transfers import TransferSettings
from app.settings.webhooks import WebhookSettings

__all__ = [
    "FOREIGN",
    "GROUPS",
    "AnswerSettings",
    "AuditSettings",
    "DatabaseSettings",
    "DeletionSettings",
    "EmbeddingSettings",
    "FurtherModel",
    "Group",
    "HttpSourceSettings",
    "HttpUrl",
    "IdentitySettings",
    "KeyLimits",
    "Limits",
    "ModelSettings",
    "ObjectStoreSettings",
    "ParserSettings",
    "PublicationSettings",
    "QuotaSettings",
    "RerankSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "TransferSettings",
    "WebhookSettings",
    "WorkerSettings",
    "known_variables",
    "load_settings",
    "user_cache_dir",
    "variable",
]


# As browsers send it: a scheme, a host in small letters, and a port where it is not the scheme's own.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?")


class ServerSettings(Group):
    """Where and how the service runs."""

    data_dir: Annotated[Path, AfterValidator(absolute)] = env("DATA_DIR", Path(".carrel"), validate_default=True)
    host: str = env("HOST", "127.0.0.1")
    port: int = env("PORT", 8000, ge=0, le=65535)
    log_level: Literal["debug", "info", "warning", "error"] = env("LOG_LEVEL", "info")
    operator_key: SecretStr | None = env("OPERATOR_KEY", None, min_length=32)
    cors_origins: Annotated[tuple[str, ...], NoDecode] = env("CORS_ORIGINS", ())
    lane_rows: int = env("LANE_ROWS", 100, ge=1, le=1000)
    max_upload_bytes: int = env("MAX_UPLOAD_BYTES", 500 * 1024 * 1024, ge=1024)
    client_seconds: int = env("CLIENT_SECONDS", 30, ge=1, le=3600)
    keep_alive_seconds: int = env("KEEP_ALIVE_SECONDS", 5, ge=1, le=3600)
    connections_per_address: int = env("CONNECTIONS_PER_ADDRESS", 1000, ge=1, le=1_000_000)

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value != ("*",) and not all(_ORIGIN.fullmatch(origin) for origin in value):
            raise ValueError("takes origins as browsers send them, such as https://app.example.com, or * alone")
        return value


class DatabaseSettings(Group):
    """Two roles, two URLs; neither means the embedded Postgres."""

    url: PostgresUrl | None = env("DATABASE_URL", None)
    admin_url: PostgresUrl | None = env("ADMIN_DATABASE_URL", None)
    pool_size: int = env("DATABASE_POOL_SIZE", 10, ge=1, le=200)

    @model_validator(mode="after")
    def _plain_role_named(self) -> Self:
        """The owner's URL alone would have the service serve from its embedded database while another is migrated."""
        if self.admin_url is not None and self.url is None:
            raise ValueError(f"{PREFIX}DATABASE_URL must be set too, where {PREFIX}ADMIN_DATABASE_URL is")
        return self


class ObjectStoreSettings(Group):
    """S3 where a bucket is named, else files below the data directory."""

    required_together = ("bucket", "access_key_id", "secret_access_key")
    bucket: str | None = env("S3_BUCKET", None)
    endpoint_url: HttpUrl | None = env("S3_ENDPOINT_URL", None)
    public_endpoint_url: HttpUrl | None = env("S3_PUBLIC_ENDPOINT_URL", None)
    access_key_id: str | None = env("S3_ACCESS_KEY_ID", None)
    secret_access_key: SecretStr | None = env("S3_SECRET_ACCESS_KEY", None)
    region: str | None = env("S3_REGION", None)

    @model_validator(mode="after")
    def _bucket_named(self) -> Self:
        if self.bucket is None and (self.endpoint_url or self.public_endpoint_url or self.region):
            raise ValueError(f"{PREFIX}S3_BUCKET must be set too")
        return self


class ModelSettings(Group):
    """Chat and vision models at one endpoint: one describes pictures, the other rewrites questions and answers them."""

    required_together = ("chat_base_url", "chat_model")
    chat_base_url: HttpUrl | None = env("CHAT_BASE_URL", None)
    chat_api_key: SecretStr | None = env("CHAT_API_KEY", None)
    chat_model: str | None = env("CHAT_MODEL", None)
    chat_timeout_seconds: float = env("CHAT_TIMEOUT_SECONDS", 60.0, gt=0, le=600)
    rewrite_model: str | None = env("REWRITE_MODEL", None)
    vision_model: str | None = env("VISION_MODEL", None)

    @model_validator(mode="after")
    def _all_have_a_home(self) -> Self:
        for name, model in {"REWRITE_MODEL": self.rewrite_model, "VISION_MODEL": self.vision_model}.items():
            if model is not None and self.chat_base_url is None:
                raise ValueError(f"{PREFIX}{name} needs {PREFIX}CHAT_BASE_URL")
        return self


class ParserSettings(Group):
    """Limits of the processes that read untrusted files, and what they read pictures with."""

    processes: int = env("PARSER_PROCESSES", 0, ge=0, le=64)
    memory_mb: int = env("PARSER_MEMORY_MB", 1500, ge=256)
    cpu_seconds: int = env("PARSER_CPU_SECONDS", 120, ge=1)
    wall_seconds: int = env("PARSER_WALL_SECONDS", 180, ge=1)
    max_pages: int = env("PARSER_MAX_PAGES", 5000, ge=1)
    max_characters: int = env("PARSER_MAX_CHARACTERS", 20_000_000, ge=1000)
    ocr_languages: Annotated[tuple[str, ...], NoDecode] = env("OCR_LANGUAGES", ("eng",))
    tessdata_dir: Annotated[Path, AfterValidator(absolute)] | None = Field(
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

    concurrency: int = env("WORKER_CONCURRENCY", 2, ge=1, le=64)
    tenant_concurrency: int = env("WORKER_TENANT_CONCURRENCY", 2, ge=1, le=1000)
    extra_jobs: int = env("WORKER_EXTRA_JOBS", 2, ge=0, le=64)
    webhook_concurrency: int = env("WORKER_WEBHOOK_CONCURRENCY", 4, ge=1, le=64)
    silent_seconds: int = env("WORKER_SILENT_SECONDS", 60, ge=5, le=3600)
    lease_seconds: int = env("WORKER_LEASE_SECONDS", 30, ge=2)
    max_attempts: int = env("WORKER_MAX_ATTEMPTS", 5, ge=1, le=50)
    expiry_seconds: int = env("WORKER_EXPIRY_SECONDS", 60, ge=1, le=86_400)
    sweep_seconds: int = env("WORKER_SWEEP_SECONDS", 3600, ge=1, le=604_800)
    orphan_seconds: int = env("WORKER_ORPHAN_SECONDS", 3600, ge=1)
    maintenance_seconds: int = env("WORKER_MAINTENANCE_SECONDS", 60, ge=1, le=86_400)
    hnsw_threshold: int = env("HNSW_THRESHOLD", 20_000, ge=1)
    reindex_undo_seconds: int = env("REINDEX_UNDO_SECONDS", 86_400, ge=0, le=31_536_000)


class Settings(BaseModel):
    """All groups."""

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
    publication: PublicationSettings
    parser: ParserSettings
    worker: WorkerSettings
    quotas: QuotaSettings
    transfers: TransferSettings
    audit: AuditSettings
    deletion: DeletionSettings
    webhooks: WebhookSettings


GROUPS: dict[str, Any] = {name: field.annotation for name, field in Settings.model_fields.items()}
# Settings of earlier versions, and the setting that took the place of each.
REPLACED = {PREFIX + "HTTP_SOURCE_HOSTS": "HTTP_SOURCES", PREFIX + "HTTP_SOURCE_SECRETS": "HTTP_SOURCES"}
# In no group: which file is read, and what programs around the service read: evaluation data, client commands.
FOREIGN = {ENV_FILE, PREFIX + "EVAL_DATA", PREFIX + "URL", PREFIX + "API_KEY"}


def known_variables() -> set[str]:
    """Every ``CARREL_*`` variable that the service reads."""
    return {variable(field) for group in GROUPS.values() for field in group.model_fields.values()}


def load_settings(**overrides: dict[str, Any]) -> Settings:
    """Read the environment; ``overrides`` are ``group={"FIELD ALIAS": value}``, from the command line.

    Raises SettingsError with one line that names the variable: wrong, unknown, or given in part.
    """
    given = {name.upper(): value for name, value in environment().items()}
    # The keys of further models stand in variables of any name, which their list says.
    keys = set(re.findall(r"\w+", given.get(f"{PREFIX}EMBEDDING_MODELS", "").upper()))
    unknown = sorted({name for name in given if name.startswith(PREFIX)} - known_variables() - FOREIGN - keys)
    if unknown and unknown[0] in REPLACED:
        raise SettingsError(f"{unknown[0]} was replaced by {PREFIX}{REPLACED[unknown[0]]}; .env.example explains it")
    if unknown:
        raise SettingsError(f"unknown setting {unknown[0]}; .env.example lists the known ones")
    check_origins()
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
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {message[0].lower()}{message[1:]}"
