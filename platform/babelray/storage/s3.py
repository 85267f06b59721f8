"""What pyarrow's filesystem does not do on S3, with boto3: entity tags, server-side copies, clear errors."""

from __future__ import annotations

import functools
import io
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from babelray.errors import StorageError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CLIENTS = threading.local()


def split(uri: str) -> tuple[str, str]:
    """Bucket and key of an `s3://` URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if "@" in bucket or ":" in bucket:
        raise StorageError(
            "an s3:// URI must not carry a user name or password",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment instead.",
        )
    if not bucket:
        raise StorageError(f"{uri} names no bucket", "Write s3://bucket/key.")
    return bucket, key


def client() -> S3Client:
    """One client a thread; endpoint and credentials from the environment, as boto3 reads them."""
    if not hasattr(_CLIENTS, "s3"):
        import boto3
        from botocore.config import Config

        retries: Any = {"max_attempts": 6, "mode": "standard"}
        _CLIENTS.s3 = boto3.session.Session().client("s3", config=Config(retries=retries, connect_timeout=5))
    return _CLIENTS.s3


@functools.cache
def _error_types() -> tuple[type[Exception], ...]:
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError, Boto3Error


def errors() -> tuple[type[Exception], ...]:
    """The exceptions of boto3, without importing it (0.2 s) for people who never use S3."""
    import sys

    return _error_types() if "botocore" in sys.modules else ()


def explain(error: Exception) -> tuple[str, str]:
    """What happened and what to do, without repeating anything secret that the error may carry."""
    response = getattr(error, "response", None) or {}
    code = str(response.get("Error", {}).get("Code", type(error).__name__))
    known = {
        "404": ("it is not there", "Check the bucket and the key."),
        "NoSuchKey": ("it is not there", "Check the key."),
        "NoSuchBucket": ("the bucket does not exist", "Create it or check its name."),
        "403": ("access denied", "Check the credentials and the bucket's policy."),
        "AccessDenied": ("access denied", "Check the credentials and the bucket's policy."),
        "InvalidAccessKeyId": ("the access key is not known to the server", "Check AWS_ACCESS_KEY_ID."),
        "SignatureDoesNotMatch": ("the secret key does not fit the access key", "Check AWS_SECRET_ACCESS_KEY."),
        "NoCredentialsError": ("no credentials were found", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."),
        "EndpointConnectionError": ("the S3 server does not answer", "Check AWS_ENDPOINT_URL and the network."),
        "ConnectTimeoutError": ("the S3 server does not answer", "Check AWS_ENDPOINT_URL and the network."),
    }
    return known.get(code, (f"S3 answered {code}", "Check the bucket, the credentials and AWS_ENDPOINT_URL."))


def is_object(uri: str) -> bool:
    bucket, key = split(uri)
    try:
        client().head_object(Bucket=bucket, Key=key)
    except _error_types() as error:
        if getattr(error, "response", {}).get("Error", {}).get("Code") in ("404", "NoSuchKey"):
            return False
        raise
    return True


def exists(uri: str) -> bool:
    bucket, key = split(uri)
    prefix = f"{key.rstrip('/')}/" if key else ""
    found = client().list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    return bool(found.get("KeyCount")) or (bool(key) and is_object(uri))


def sizes_below(uri: str) -> dict[str, int]:
    bucket, key = split(uri)
    prefix = f"{key.rstrip('/')}/" if key else ""
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    found = {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}
    return {key.removeprefix(prefix): found[key] for key in sorted(found) if not key.endswith("/")}


def read(uri: str) -> bytes:
    bucket, key = split(uri)
    return client().get_object(Bucket=bucket, Key=key)["Body"].read()


def size(uri: str) -> int:
    bucket, key = split(uri)
    return client().head_object(Bucket=bucket, Key=key)["ContentLength"]


def open_file(uri: str) -> BinaryIO:
    """A stream that reads ranges; pyarrow's, with boto3's settings from the environment, buffered to give lines."""
    from pyarrow import fs

    split(uri)
    filesystem, path = fs.FileSystem.from_uri(uri)
    raw: Any = filesystem.open_input_file(path)
    return io.BufferedReader(raw, buffer_size=1 << 20)


def write(uri: str, data: bytes) -> None:
    bucket, key = split(uri)
    client().put_object(Bucket=bucket, Key=key, Body=data)


def upload(file: Path, uri: str) -> None:
    bucket, key = split(uri)
    client().upload_file(str(file), bucket, key)


def download(uri: str, file: Path) -> None:
    bucket, key = split(uri)
    file.parent.mkdir(parents=True, exist_ok=True)
    client().download_file(bucket, key, str(file))


def entity_tag(uri: str) -> str:
    bucket, key = split(uri)
    head = client().head_object(Bucket=bucket, Key=key)
    return f"{head['ETag'].strip(chr(34))}-{head['ContentLength']}"


def delete_below(uri: str) -> None:
    bucket, key = split(uri)
    if not key:
        raise StorageError(f"refusing to empty the bucket {bucket}", "Name a key below it.")
    names = [f"{key}/{name}" for name in sizes_below(uri)] or [key]
    for start in range(0, len(names), 1000):
        batch: Any = {"Objects": [{"Key": name} for name in names[start : start + 1000]]}
        client().delete_objects(Bucket=bucket, Delete=batch)


def move(source: str, target: str, names: list[str], last: str) -> None:
    """Copy on the server, the file that marks completeness at the end; then delete the source."""
    from_bucket, from_key = split(source)
    to_bucket, to_key = split(target)
    for name in sorted(names, key=lambda n: n == last):
        client().copy({"Bucket": from_bucket, "Key": f"{from_key}/{name}"}, to_bucket, f"{to_key}/{name}")
    delete_below(source)
