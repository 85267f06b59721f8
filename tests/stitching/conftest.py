import pytest

from support.stitching_language import SourceLanguage, make_language


@pytest.fixture(scope="session")
def language(tmp_path_factory: pytest.TempPathFactory) -> SourceLanguage:
    return make_language(tmp_path_factory.mktemp("bert"))
