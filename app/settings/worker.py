"""Settings of the worker: concurrency, leases and intervals of periodic jobs."""

from app.settings.settings_group import SettingsGroup, env_field


class WorkerSettings(SettingsGroup):
    """Worker: concurrency, leases and intervals of periodic jobs."""

    concurrency: int = env_field(
        "WORKER_CONCURRENCY",
        2,
        ge=1,
        le=64,
        unit="jobs",
        description="Number of jobs that each worker runs at the same time.",
        read_by="worker",
    )
    tenant_concurrency: int = env_field(
        "WORKER_TENANT_CONCURRENCY",
        2,
        ge=1,
        le=1000,
        unit="jobs",
        description="Number of jobs of one tenant that all workers together run at the same time. "
        "The quota `concurrent_ingestions` of a tenant overrides it.",
        read_by="API and worker",
    )
    extra_jobs: int = env_field(
        "WORKER_EXTRA_JOBS",
        2,
        ge=0,
        le=64,
        unit="jobs",
        description="Number of jobs that each worker runs in addition to CARREL_WORKER_CONCURRENCY, for tenants that "
        "have no running job. Each one needs the memory of one more document.",
        read_by="worker",
    )
    webhook_concurrency: int = env_field(
        "WORKER_WEBHOOK_CONCURRENCY",
        4,
        ge=1,
        le=64,
        unit="deliveries",
        description="Number of webhook deliveries that each worker sends at the same time, in addition to its jobs.",
        read_by="worker",
    )
    heartbeat_timeout_seconds: int = env_field(
        "WORKER_HEARTBEAT_TIMEOUT_SECONDS",
        60,
        ge=5,
        le=3600,
        unit="seconds",
        description="Time without a heartbeat after which `carrel serve` ends its worker and starts another one.",
        read_by="API",
    )
    lease_timeout_seconds: int = env_field(
        "WORKER_LEASE_TIMEOUT_SECONDS",
        30,
        ge=2,
        unit="seconds",
        description="Time that a worker holds a job without renewing its lease. After that time another worker takes "
        "the job.",
        read_by="worker",
    )
    max_attempts: int = env_field(
        "WORKER_MAX_ATTEMPTS",
        5,
        ge=1,
        le=50,
        unit="attempts",
        description="Number of attempts of a job before it fails, for example the ingestion of a document. "
        "The value is stored with a job when the job is created.",
        read_by="API and worker",
    )
    expiry_interval_seconds: int = env_field(
        "WORKER_EXPIRY_INTERVAL_SECONDS",
        60,
        ge=1,
        le=86_400,
        unit="seconds",
        description="Interval at which documents are deleted whose `expires_at` has passed.",
        read_by="worker",
    )
    sweep_interval_seconds: int = env_field(
        "WORKER_SWEEP_INTERVAL_SECONDS",
        3600,
        ge=1,
        le=604_800,
        unit="seconds",
        description="Interval at which objects without a document and expired records are deleted.",
        read_by="worker",
    )
    orphan_age_seconds: int = env_field(
        "WORKER_ORPHAN_AGE_SECONDS",
        3600,
        ge=1,
        unit="seconds",
        description="Minimum age of an object without a document before it is deleted. "
        "It must be longer than the longest upload takes.",
        read_by="worker",
    )
    maintenance_interval_seconds: int = env_field(
        "WORKER_MAINTENANCE_INTERVAL_SECONDS",
        60,
        ge=1,
        le=86_400,
        unit="seconds",
        description="Interval at which changed search indexes are maintained.",
        read_by="worker",
    )
    hnsw_threshold: int = env_field(
        "HNSW_THRESHOLD",
        20_000,
        ge=1,
        unit="chunks",
        description="Number of chunks of 384 dimensions from which a knowledge base gets an HNSW index. "
        "The number falls with the square root of the dimensions: at 1,536 it is half. "
        "All workers need the same value, or one drops the index that another one builds.",
        read_by="worker",
    )
    reindex_rollback_seconds: int = env_field(
        "REINDEX_ROLLBACK_SECONDS",
        86_400,
        ge=0,
        le=31_536_000,
        unit="seconds",
        description="Time that the previous search index is kept after a reindex, so that a rollback can restore it.",
        read_by="API and worker",
    )
