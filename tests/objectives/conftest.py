import pytest

from support.small_training_data import SmallTrainingData


@pytest.fixture
def training_data(tiny_encoder: str) -> SmallTrainingData:
    return SmallTrainingData(tiny_encoder)
