"""Create the bucket and the user that owns it on versitygw, with the server's root key. Running it again is safe.

API and worker get the user's key, which reaches this bucket alone. Only this container and the server have the root
key.
"""

import os
import urllib.error
import urllib.request
from urllib.parse import urlencode
from xml.sax.saxutils import escape

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

ENDPOINT = os.environ["CARREL_S3_ENDPOINT_URL"]
REGION = os.environ.get("CARREL_S3_REGION") or "us-east-1"
ROOT = Credentials(os.environ["S3_ROOT_ACCESS_KEY_ID"], os.environ["S3_ROOT_SECRET_ACCESS_KEY"])
TIMEOUT_SECONDS = 30


def administer(path: str, *, body: str = "", **query: str) -> None:
    """Send one request of versitygw's admin API. Raises HTTPError."""
    url = f"{ENDPOINT}/{path}" + (f"?{urlencode(query)}" if query else "")
    signed = AWSRequest(method="PATCH", url=url, data=body.encode())
    S3SigV4Auth(ROOT, "s3", REGION).add_auth(signed)
    request = urllib.request.Request(url, data=body.encode(), headers=dict(signed.headers), method="PATCH")  # noqa: S310  # the operator's own server
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):  # noqa: S310
        pass


def create_user(access: str, secret: str) -> None:
    """Create a user without rights of an administrator, or give an existing one this secret."""
    new = f"<Access>{escape(access)}</Access><Secret>{escape(secret)}</Secret><Role>user</Role>"
    try:
        administer("create-user", body=f"<Account>{new}</Account>")
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
        changes = f"<Secret>{escape(secret)}</Secret><Role>user</Role>"
        administer("update-user", body=f"<MutableProps>{changes}</MutableProps>", access=access)


def create_bucket(bucket: str) -> None:
    """Create the bucket if it does not exist. Raises botocore's errors."""
    client = boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        aws_access_key_id=ROOT.access_key,
        aws_secret_access_key=ROOT.secret_key,
        region_name=REGION,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    existing = {found["Name"] for found in client.list_buckets()["Buckets"]}
    if bucket not in existing:
        client.create_bucket(Bucket=bucket)


def main() -> None:
    """Create user and bucket. An error ends the container with a status that the other containers do not accept."""
    access, bucket = os.environ["CARREL_S3_ACCESS_KEY_ID"], os.environ["CARREL_S3_BUCKET"]
    if access == ROOT.access_key:
        raise SystemExit("S3_ACCESS_KEY_ID must differ from S3_ROOT_ACCESS_KEY_ID: the service gets no root key.")
    create_user(access, os.environ["CARREL_S3_SECRET_ACCESS_KEY"])
    create_bucket(bucket)
    administer("change-bucket-owner/", bucket=bucket, owner=access)


if __name__ == "__main__":
    main()
