import pytest

from babelray.errors import StorageError
from babelray.storage import Location
from babelray.storage.lock import exclusive_lock


def test_two_runs_cannot_make_the_same_thing(tmp_path) -> None:
    location = Location.parse(tmp_path / "corpus" / "abc")
    with exclusive_lock(location) as check:
        check()
        with pytest.raises(StorageError, match="another run is making"), exclusive_lock(location):
            pass
        with exclusive_lock(Location.parse(tmp_path / "corpus" / "abd")):
            pass
    with exclusive_lock(location):
        pass
