import pytest

from babelray.errors import StorageError
from babelray.storage import Place
from babelray.storage.lock import only_one


def test_two_runs_cannot_make_the_same_thing(tmp_path) -> None:
    place = Place.parse(tmp_path / "corpus" / "abc")
    with only_one(place) as check:
        check()
        with pytest.raises(StorageError, match="another run is making"), only_one(place):
            pass
        with only_one(Place.parse(tmp_path / "corpus" / "abd")):
            pass
    with only_one(place):
        pass
