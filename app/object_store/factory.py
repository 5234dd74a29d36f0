"""Factory of the configured object store."""

from app.object_store import ObjectStore
from app.object_store.filesystem import FileObjectStore
from app.settings import Settings

# The SDK is imported only if S3 is configured, because the import takes 0.3 seconds and tens of megabytes.


def create_object_store(settings: Settings) -> ObjectStore:
    """Create an S3 store if a bucket is configured, otherwise a store of files in the data directory.

    Args:
        settings: The settings of the service.

    Returns:
        The object store. The caller closes it.
    """
    s3 = settings.object_store
    if s3.bucket is None or s3.access_key_id is None or s3.secret_access_key is None:
        return FileObjectStore(settings.server.data_dir / "objects")
    from app.object_store.s3 import S3ObjectStore

    return S3ObjectStore(
        s3.bucket,
        endpoint_url=s3.endpoint_url,
        public_endpoint_url=s3.public_endpoint_url,
        access_key_id=s3.access_key_id,
        secret_access_key=s3.secret_access_key.get_secret_value(),
        region=s3.region,
    )
