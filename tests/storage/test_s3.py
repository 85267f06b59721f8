"""What S3's answers mean, with a client that gives them."""

from typing import Any

import pytest

from babelray.errors import StorageError
from babelray.storage import Location, s3


class Deleting:
    """A client whose bucket has one object, and which refuses to delete it for these reasons in turn."""

    def __init__(self, *codes: str) -> None:
        self.codes, self.asked = list(codes), 0

    def get_paginator(self, name: str) -> Any:
        return self

    def paginate(self, **options: str) -> list[dict[str, Any]]:
        return [{"Contents": [{"Key": "folder/x", "Size": 1}]}]

    def delete_objects(self, Bucket: str, Delete: Any) -> dict[str, Any]:
        self.asked += 1
        return {"Errors": [{"Key": "folder/x", "Code": self.codes.pop(0)}]} if self.codes else {}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3.time, "sleep", lambda seconds: None)


def test_an_object_that_may_not_be_deleted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 answers with 200, and the refusal in the text."""
    monkeypatch.setattr(s3, "client", lambda: Deleting("AccessDenied"))
    with pytest.raises(StorageError, match="access denied"):
        Location.parse("s3://bucket/folder").delete()


@pytest.mark.parametrize(("codes", "asked"), [(["SlowDown", "InternalError"], 3), (["NoSuchKey"], 1)])
def test_what_passes_is_asked_again(codes: list[str], asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Deleting(*codes)
    monkeypatch.setattr(s3, "client", lambda: client)
    Location.parse("s3://bucket/folder").delete()
    assert client.asked == asked


def test_patience_lasts_as_long_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import EndpointConnectionError

    now = [0.0]
    monkeypatch.setattr(s3.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(s3.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))

    def away_until(end: float) -> str:
        if now[0] < end:
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")
        return "back"

    assert s3.with_retries(away_until)(s3.RETRY_SECONDS) == "back"
    now[0] = 0.0
    with pytest.raises(EndpointConnectionError):
        s3.with_retries(away_until)(s3.RETRY_SECONDS + 0.1)
    assert now[0] == s3.RETRY_SECONDS


@pytest.mark.parametrize(
    ("message", "times"),
    [("EOF occurred in violation of protocol", 2), ("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate", 1)],
)
def test_a_secure_connection_that_breaks_is_made_again(message: str, times: int) -> None:
    """A server that goes away breaks it too; only a certificate that is wrong stays wrong."""
    from botocore.exceptions import SSLError

    asked: list[str] = []

    def ask() -> str:
        asked.append(message)
        if len(asked) == 1:
            raise SSLError(endpoint_url="https://127.0.0.1:9", error=message)
        return "back"

    try:
        assert s3.with_retries(ask)() == "back"
    except SSLError as error:
        assert "certificate" in s3.explain(error)[1]
    assert len(asked) == times
