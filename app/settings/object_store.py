"""Settings of the object store: an S3 bucket, or files below the data directory."""

from typing import Self

from pydantic import SecretStr, model_validator

from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field


class ObjectStoreSettings(SettingsGroup):
    """Object store: an S3 bucket for uploaded files. If no bucket is set, files go below the data directory."""

    required_together = ("bucket", "access_key_id", "secret_access_key")
    bucket: str | None = env_field(
        "S3_BUCKET",
        None,
        description="Name of an existing bucket.",
        read_by="API and worker",
    )
    endpoint_url: HttpUrl | None = env_field(
        "S3_ENDPOINT_URL",
        None,
        description="URL of the S3 server. If it is not set, the server is AWS.",
        read_by="API and worker",
    )
    public_endpoint_url: HttpUrl | None = env_field(
        "S3_PUBLIC_ENDPOINT_URL",
        None,
        description="URL of the S3 server that callers can reach; download links use it. If neither this URL nor "
        "CARREL_S3_ENDPOINT_URL is set, links lead to AWS. If only CARREL_S3_ENDPOINT_URL is set, the API sends the "
        "files itself.",
        read_by="API",
    )
    access_key_id: str | None = env_field(
        "S3_ACCESS_KEY_ID",
        None,
        description="ID of the S3 access key. Required with CARREL_S3_BUCKET.",
        read_by="API and worker",
    )
    secret_access_key: SecretStr | None = env_field(
        "S3_SECRET_ACCESS_KEY",
        None,
        description="Secret of the S3 access key. Required with CARREL_S3_BUCKET.",
        read_by="API and worker",
    )
    region: str | None = env_field(
        "S3_REGION",
        None,
        description="Region for the signature of requests. If it is not set, the region is us-east-1.",
        read_by="API and worker",
    )

    @model_validator(mode="after")
    def _require_bucket(self) -> Self:
        if self.bucket is None and (self.endpoint_url or self.public_endpoint_url or self.region):
            raise ValueError(f"{PREFIX}S3_BUCKET must be set too")
        return self
