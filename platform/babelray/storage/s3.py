"""S3 with boto3: files, folders, streams, server-side copies, and clear errors.

A server that goes away for a short while costs only that while: what it did not answer is asked again, at growing
intervals, for `PATIENCE` seconds. Every request here can be repeated without harm.
"""

from __future__ import annotations

import functools
import io
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ParamSpec, TypeVar

from babelray.errors import StorageError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CLIENTS = threading.local()
P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 45.0
"""Seconds that a server may be away before the run ends."""
PAUSES = (0.5, 5.0)
"""Seconds before the first repetition, and between later ones at most."""


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

        config = Config(retries={"total_max_attempts": 2, "mode": "standard"}, connect_timeout=5, read_timeout=30)
        _CLIENTS.s3 = boto3.session.Session().client("s3", config=config)
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


def patient(function: Callable[P, R]) -> Callable[P, R]:
    """Repeat a request while the server is away; an answer that says no is an answer."""

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        pause, deadline = PAUSES[0], 0.0
        while True:
            try:
                return function(*arguments, **named)
            except _error_types() as error:
                now = time.monotonic()
                if not deadline:
                    deadline = now + PATIENCE
                if not _is_away(error) or now >= deadline:
                    raise
                if pause == PAUSES[0]:
                    logging.getLogger("babelray").warning(
                        "%s; trying again for %.0f s", explain(error)[0], deadline - now
                    )
            time.sleep(min(pause, deadline - now))
            pause = min(2 * pause, PAUSES[1])

    return call


def _is_away(error: BaseException) -> bool:
    """Whether the server did not answer, or said that it cannot at the moment."""
    from boto3.exceptions import RetriesExceededError
    from botocore import exceptions

    error = _cause(error)
    if isinstance(error, exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or status in (408, 429)
    cut = (exceptions.ConnectionError, exceptions.HTTPClientError, exceptions.IncompleteReadError, RetriesExceededError)
    return isinstance(error, cut) and not _is_untrusted(error)


def _is_untrusted(error: BaseException) -> bool:
    """Whether the server's certificate is; other trouble with TLS is that of a server that goes away."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _cause(error: BaseException) -> BaseException:
    """What went wrong below an upload or download of a file."""
    from boto3.exceptions import Boto3Error

    return (error.__cause__ or error.__context__ or error) if isinstance(error, Boto3Error) else error


def explain(error: BaseException) -> tuple[str, str]:
    """What happened and what to do, without repeating anything secret that the error may carry."""
    error = _cause(error)
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
        "SSLError": ("no secure connection to the S3 server", "Check AWS_ENDPOINT_URL and the server's certificate."),
        "ReadTimeoutError": ("the S3 server does not answer", "Check AWS_ENDPOINT_URL and the network."),
        "ConnectionClosedError": ("the S3 server ended the connection", "Check AWS_ENDPOINT_URL and the network."),
        "ResponseStreamingError": ("the S3 server ended the connection", "Check AWS_ENDPOINT_URL and the network."),
    }
    return known.get(code, (f"S3 answered {code}", "Check the bucket, the credentials and AWS_ENDPOINT_URL."))


@patient
def is_object(uri: str) -> bool:
    bucket, key = split(uri)
    try:
        client().head_object(Bucket=bucket, Key=key)
    except _error_types() as error:
        if getattr(error, "response", {}).get("Error", {}).get("Code") in ("404", "NoSuchKey"):
            return False
        raise
    return True


@patient
def exists(uri: str) -> bool:
    bucket, key = split(uri)
    prefix = f"{key.rstrip('/')}/" if key else ""
    found = client().list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    return bool(found.get("KeyCount")) or (bool(key) and is_object(uri))


@patient
def sizes_below(uri: str) -> dict[str, int]:
    bucket, key = split(uri)
    prefix = f"{key.rstrip('/')}/" if key else ""
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    found = {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}
    for name in found:  # an empty part would make a path absolute
        if {"", ".", ".."} & {*name.removeprefix(prefix).removesuffix("/").split("/")} and name != prefix:
            raise StorageError(f"the key {name!r} would lead out of its folder", "Delete that object.")
    return {key.removeprefix(prefix): found[key] for key in sorted(found) if not key.endswith("/")}


@patient
def read(uri: str) -> bytes:
    bucket, key = split(uri)
    return client().get_object(Bucket=bucket, Key=key)["Body"].read()


@patient
def size(uri: str) -> int:
    bucket, key = split(uri)
    return client().head_object(Bucket=bucket, Key=key)["ContentLength"]


def open_file(uri: str) -> BinaryIO:
    """A stream that reads only the ranges that are asked for."""
    return io.BufferedReader(_Object(uri, size(uri)), buffer_size=1 << 20)


class _Object(io.RawIOBase):
    """The bytes of an object, fetched as they are read."""

    def __init__(self, uri: str, length: int) -> None:
        super().__init__()
        self._uri, self._length, self._at = uri, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._length - self._at)
        if count <= 0:
            return 0
        buffer[:count] = _range(self._uri, self._at, count)
        self._at += count
        return count


@patient
def _range(uri: str, start: int, count: int) -> bytes:
    bucket, key = split(uri)
    return client().get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{start + count - 1}")["Body"].read()


@patient
def write(uri: str, data: bytes) -> None:
    bucket, key = split(uri)
    client().put_object(Bucket=bucket, Key=key, Body=data)


def write_if(uri: str, data: bytes, tag: str | None) -> str | None:
    """Write an object if it has this tag, or if it is not there; its new tag, or None if it is another."""
    bucket, key = split(uri)
    condition: Any = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
    try:
        return client().put_object(Bucket=bucket, Key=key, Body=data, **condition)["ETag"]
    except _error_types() as error:
        status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status == 501:  # a server that knows no conditions
            return client().put_object(Bucket=bucket, Key=key, Body=data)["ETag"]
        if status in (409, 412) or (status == 404 and tag is not None):
            return None
        raise


def read_tagged(uri: str) -> tuple[bytes, str] | None:
    """An object and its tag; None if it is not there."""
    bucket, key = split(uri)
    try:
        found = client().get_object(Bucket=bucket, Key=key)
        return found["Body"].read(), found["ETag"]
    except _error_types() as error:
        if getattr(error, "response", {}).get("Error", {}).get("Code") == "NoSuchKey":
            return None
        raise


@patient
def upload(file: Path, uri: str) -> None:
    bucket, key = split(uri)
    client().upload_file(str(file), bucket, key)


@patient
def download(uri: str, file: Path) -> None:
    bucket, key = split(uri)
    file.parent.mkdir(parents=True, exist_ok=True)
    client().download_file(bucket, key, str(file))


@patient
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
        _delete(bucket, names[start : start + 1000])


@patient
def _delete(bucket: str, names: list[str]) -> None:
    from botocore.exceptions import ClientError

    answer = client().delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names]})
    for refused in answer.get("Errors", []):  # S3 calls that a success
        if (code := refused.get("Code")) != "NoSuchKey":
            status = 503 if code in ("InternalError", "ServiceUnavailable", "SlowDown") else 403
            said: Any = {"Error": refused, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(said, "DeleteObjects")


def delete_object(uri: str) -> None:
    bucket, key = split(uri)
    client().delete_object(Bucket=bucket, Key=key)


@patient
def copy(source: str, target: str) -> None:
    """Copy an object on the server."""
    (from_bucket, from_key), (to_bucket, to_key) = split(source), split(target)
    client().copy({"Bucket": from_bucket, "Key": from_key}, to_bucket, to_key)


def move(source: str, target: str, names: list[str], last: str) -> None:
    """Copy on the server, the file that marks completeness at the end; then delete the source."""
    for name in sorted(names, key=lambda n: n == last):
        copy(f"{source}/{name}", f"{target}/{name}")
    if last in names:  # first, so that what is half deleted is not taken for complete
        bucket, key = split(source)
        _delete(bucket, [f"{key}/{last}"])
    delete_below(source)
