import pytest

from few_materials import FewMaterials


@pytest.fixture
def materials(tiny_encoder: str) -> FewMaterials:
    return FewMaterials(tiny_encoder)
