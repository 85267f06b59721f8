"""A layer read alone is the layer of the whole encoder, in every family of encoders."""

import copy

import pytest
import torch
import transformers

from babelray.encoder.layers import LayerReader, find_layers

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
FAMILIES = {
    "XLMRoberta": SMALL,
    "RobertaPreLayerNorm": SMALL,
    "Bert": SMALL,
    "Electra": SMALL,
    "DebertaV2": SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "ModernBert": SMALL | {"pad_token_id": 1, "cls_token_id": 2, "sep_token_id": 3},
    "DistilBert": {"vocab_size": 50, "dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32},
    "Albert": SMALL | {"embedding_size": 8},
}
IDS = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 4, 4]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()


@pytest.mark.parametrize("family", FAMILIES)
def test_same_as_the_whole_encoder(family: str) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**FAMILIES[family])
    whole = getattr(transformers, f"{family}Model")(config).eval()
    with torch.no_grad():
        expected = whole(input_ids=IDS, attention_mask=MASK, output_hidden_states=True).hidden_states
    for layers in ([0], [1], [2], [3], [0, 2], [0, 1, 2, 3]):
        model = copy.deepcopy(whole)
        ran: list[int] = []
        for number, module in enumerate(find_layers(model) or []):
            module.register_forward_hook(lambda *_, ran=ran, number=number: ran.append(number))
        found = LayerReader(model, layers)(IDS, MASK)
        assert list(found) == layers
        for layer, hidden in found.items():
            assert torch.allclose(hidden[MASK], expected[layer][MASK], atol=1e-5), layer
        if family != "Albert":
            assert len(ran) == max(1, layers[-1]), "no layer above the last that is wanted runs"


def test_reading_twice_gives_the_same() -> None:
    model = transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**SMALL)).eval()
    reader = LayerReader(model, [1])
    assert torch.equal(reader(IDS, MASK)[1], reader(IDS, MASK)[1])
    assert reader(IDS, MASK)[1].is_inference()
