"""A real S3 server on loopback."""

from collections.abc import Iterator

import pytest

from support import servers


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """SeaweedFS with one bucket, `bucket`; yields the environment that reaches it."""
    if reason := servers.available("s3"):
        pytest.skip(reason)
    with servers.s3(tmp_path_factory.mktemp("s3")) as server:
        yield server.env
