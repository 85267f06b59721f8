"""S3 with boto3: files, folders, streams, server-side copies, and clear errors.

A short outage of the server only delays a run: requests without an answer are repeated, at growing intervals, for
`RETRY_SECONDS` seconds. Every request here can be repeated without harm.
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
from babelray.packages import explain_missing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_CLIENTS = threading.local()
P = ParamSpec("P")
R = TypeVar("R")

RETRY_SECONDS = 45.0
"""Longest outage of a server, in seconds, before the run ends."""
PAUSES = (0.5, 5.0)
"""Seconds before the first repetition, and at most between later ones."""


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
    """One client per thread; endpoint and credentials from the environment, as boto3 reads them."""
    if not hasattr(_CLIENTS, "s3"):
        with explain_missing("a location on S3"):
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

    return _error_types() if sys.modules.get("boto3") else ()


def with_retries(function: Callable[P, R]) -> Callable[P, R]:
    """Repeat a request while the server is unavailable. An error that the server itself reports is not repeated."""

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        pause, deadline = PAUSES[0], 0.0
        while True:
            try:
                return function(*arguments, **named)
            except _error_types() as error:
                now = time.monotonic()
                if not deadline:
                    deadline = now + RETRY_SECONDS
                if not _is_unavailable(error) or now >= deadline:
                    raise
                if pause == PAUSES[0]:
                    logging.getLogger("babelray").warning(
                        "%s; trying again for %.0f s", explain(error)[0], deadline - now
                    )
            time.sleep(min(pause, deadline - now))
            pause = min(2 * pause, PAUSES[1])

    return call


def _is_unavailable(error: BaseException) -> bool:
    """Whether the server did not answer, or reported that it is overloaded or failing."""
    from boto3.exceptions import RetriesExceededError
    from botocore import exceptions

    error = _cause(error)
    if isinstance(error, exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or status in (408, 429)
    interruptions = (
        exceptions.ConnectionError,
        exceptions.HTTPClientError,
        exceptions.IncompleteReadError,
        RetriesExceededError,
    )
    return isinstance(error, interruptions) and not _is_untrusted(error)


def _is_untrusted(error: BaseException) -> bool:
    """Whether the server's certificate is not trusted; other TLS errors count as an outage."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _cause(error: BaseException) -> BaseException:
    """The error that made an upload or download fail."""
    from boto3.exceptions import Boto3Error

    return (error.__cause__ or error.__context__ or error) if isinstance(error, Boto3Error) else error


def explain(error: BaseException) -> tuple[str, str]:
    """The problem and its remedy, without any secret that the error may contain."""
    error = _cause(error)
    response = getattr(error, "response", None) or {}
    code = str(response.get("Error", {}).get("Code", type(error).__name__))
    explanations = {
        "404": ("it does not exist", "Check the bucket and the key."),
        "NoSuchKey": ("it does not exist", "Check the key."),
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
    return explanations.get(code, (f"S3 answered {code}", "Check the bucket, the credentials and AWS_ENDPOINT_URL."))


@with_retries
def is_object(uri: str) -> bool:
    bucket, key = split(uri)
    try:
        client().head_object(Bucket=bucket, Key=key)
    except _error_types() as error:
        if getattr(error, "response", {}).get("Error", {}).get("Code") in ("404", "NoSuchKey"):
            return False
        raise
    return True


@with_retries
def exists(uri: str) -> bool:
    bucket, key = split(uri)
    prefix = f"{key.rstrip('/')}/" if key else ""
    answer = client().list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    return bool(answer.get("KeyCount")) or (bool(key) and is_object(uri))


@with_retries
def sizes_below(uri: str) -> dict[str, int]:
    bucket, key = split(uri)
    prefix = f"{key.rstrip('/')}/" if key else ""
    pages = client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    sizes = {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}
    for name in sizes:  # an empty part would make a path absolute
        if {"", ".", ".."} & {*name.removeprefix(prefix).removesuffix("/").split("/")} and name != prefix:
            raise StorageError(f"the key {name!r} would lead out of its folder", "Delete that object.")
    return {key.removeprefix(prefix): sizes[key] for key in sorted(sizes) if not key.endswith("/")}


@with_retries
def read(uri: str) -> bytes:
    bucket, key = split(uri)
    return client().get_object(Bucket=bucket, Key=key)["Body"].read()


@with_retries
def size(uri: str) -> int:
    bucket, key = split(uri)
    return client().head_object(Bucket=bucket, Key=key)["ContentLength"]


def open_file(uri: str) -> BinaryIO:
    """A stream that fetches only the ranges that are read."""
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


@with_retries
def _range(uri: str, start: int, count: int) -> bytes:
    bucket, key = split(uri)
    return client().get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{start + count - 1}")["Body"].read()


@with_retries
def write(uri: str, data: bytes) -> None:
    bucket, key = split(uri)
    client().put_object(Bucket=bucket, Key=key, Body=data)


def write_if(uri: str, data: bytes, tag: str | None) -> str | None:
    """Write an object if it has this tag or, without a tag, if there is none; its new tag, or None if not written."""
    bucket, key = split(uri)
    condition: Any = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
    try:
        return client().put_object(Bucket=bucket, Key=key, Body=data, **condition)["ETag"]
    except _error_types() as error:
        status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status == 501:  # the server does not support conditions
            return client().put_object(Bucket=bucket, Key=key, Body=data)["ETag"]
        if status in (409, 412) or (status == 404 and tag is not None):
            return None
        raise


def read_tagged(uri: str) -> tuple[bytes, str] | None:
    """An object and its tag; None if there is none."""
    bucket, key = split(uri)
    try:
        answer = client().get_object(Bucket=bucket, Key=key)
        return answer["Body"].read(), answer["ETag"]
    except _error_types() as error:
        if getattr(error, "response", {}).get("Error", {}).get("Code") == "NoSuchKey":
            return None
        raise


@with_retries
def upload(file: Path, uri: str) -> None:
    bucket, key = split(uri)
    client().upload_file(str(file), bucket, key)


@with_retries
def download(uri: str, file: Path) -> None:
    bucket, key = split(uri)
    file.parent.mkdir(parents=True, exist_ok=True)
    client().download_file(bucket, key, str(file))


@with_retries
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


@with_retries
def _delete(bucket: str, names: list[str]) -> None:
    from botocore.exceptions import ClientError

    answer = client().delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names]})
    for refused in answer.get("Errors", []):  # S3 reports success nevertheless
        if (code := refused.get("Code")) != "NoSuchKey":
            status = 503 if code in ("InternalError", "ServiceUnavailable", "SlowDown") else 403
            response: Any = {"Error": refused, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(response, "DeleteObjects")


def delete_object(uri: str) -> None:
    bucket, key = split(uri)
    client().delete_object(Bucket=bucket, Key=key)


@with_retries
def copy(source: str, target: str) -> None:
    """Copy an object on the server."""
    (from_bucket, from_key), (to_bucket, to_key) = split(source), split(target)
    client().copy({"Bucket": from_bucket, "Key": from_key}, to_bucket, to_key)


def move(source: str, target: str, names: list[str], last: str) -> None:
    """Copy on the server, the file that marks completeness at the end; then delete the source."""
    for name in sorted(names, key=lambda n: n == last):
        copy(f"{source}/{name}", f"{target}/{name}")
    if last in names:  # first: a partly deleted folder must not count as complete
        bucket, key = split(source)
        _delete(bucket, [f"{key}/{last}"])
    delete_below(source)
