"""Make the bucket that CARREL_S3_BUCKET names on the server of CARREL_S3_ENDPOINT_URL; one that is there is fine."""

import os

import boto3
from botocore.config import Config


def main() -> None:
    """Raises botocore's errors, which end the one-shot container with a status that the others wait for in vain."""
    client = boto3.client(
        "s3",
        endpoint_url=os.environ["CARREL_S3_ENDPOINT_URL"],
        aws_access_key_id=os.environ["CARREL_S3_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["CARREL_S3_SECRET_ACCESS_KEY"],
        region_name=os.environ.get("CARREL_S3_REGION") or "us-east-1",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    bucket = os.environ["CARREL_S3_BUCKET"]
    existing = {found["Name"] for found in client.list_buckets()["Buckets"]}
    if bucket not in existing:
        client.create_bucket(Bucket=bucket)


if __name__ == "__main__":
    main()
