"""Folders of owners that were killed are removed; those of owners that live are not."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from babelray.storage import temporary

OWNER = """
from babelray.storage.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    input()
"""


def test_a_folder_goes_with_its_owner_or_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary.temporary_folder() as own:
        (own / "file").write_text("x")
    assert not list(tmp_path.iterdir())

    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    assert folder.parent.parent == tmp_path
    monkeypatch.setattr(temporary, "GRACE_SECONDS", -1.0)
    temporary.remove_abandoned()
    assert (folder / "file").exists(), "its owner lives"
    owner.kill()
    owner.communicate()
    monkeypatch.setattr(temporary, "GRACE_SECONDS", 60.0)
    temporary.remove_abandoned()
    assert folder.exists(), "it may be so new that it is not locked yet"
    monkeypatch.setattr(temporary, "GRACE_SECONDS", -1.0)
    with temporary.temporary_folder():
        assert not folder.exists()
