"""Sentence retrieval on held-out sentences at every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from babelray.evaluation.benchmark import BATCH_TOKENS, BENCHMARKS, Benchmark, Result, System
from babelray.evaluation.held_out import held_out_pairs

if TYPE_CHECKING:
    from torch import Tensor


@BENCHMARKS.register
class LayerProfile(Benchmark):
    """Sentence retrieval on held-out sentences at every layer, both directions averaged; 0 is the embedding layer. The
    table shows the layer that is best in each language.
    """

    title: ClassVar[str] = "Sentence retrieval by layer"
    main_metric: ClassVar[str] = "best"
    columns: ClassVar[Mapping[str, str]] = {"best": "%", "best_layer": ".0f"}
    needs: ClassVar[tuple[str, ...]] = ("encoder", "corpus")
    held_out: ClassVar[bool] = True
    for_own_files: ClassVar[str] = "use the benchmark tatoeba with `layer`"

    benchmark: Literal["layers"] = "layers"
    batch_tokens: int | None = Field(None, ge=64)
    """Subwords in a batch, padding included; `evaluate.batch_tokens` by default."""

    def score(self, system: System) -> Result:
        from babelray.metrics.retrieval import correct_translations

        encode = _LayerEncoder(system.encoder, self.batch_tokens or BATCH_TOKENS, system.device)
        layers: dict[str, dict[str, float]] = {}
        chance: dict[str, float] = {}
        hits: dict[str, dict[str, tuple[Tensor, Tensor]]] = {}
        for code, pairs in held_out_pairs(system, "parallel").items():
            source, target = (encode([pair[side] for pair in pairs]) for side in (0, 1))
            chance[code] = 1 / len(pairs)
            hits[code] = {str(layer): correct_translations(own_ND, target[layer]) for layer, own_ND in source.items()}
            layers[code] = {
                layer: sum(side_N.float().mean().item() for side_N in both) / 2 for layer, both in hits[code].items()
            }
        best = {code: max(accuracy, key=accuracy.__getitem__) for code, accuracy in layers.items()}
        scores = {code: {"best": layers[code][layer], "best_layer": int(layer)} for code, layer in best.items()}
        predictions = {
            code: {
                side: {"example_scores": own_N.int().tolist()}
                for side, own_N in zip(("to_hub", "from_hub"), hits[code][layer], strict=True)
            }
            for code, layer in best.items()
        }
        return Result(scores, predictions, {"layers": layers} if layers else {}, chance)


class _LayerEncoder:
    """Vectors of texts at every layer of an encoder."""

    def __init__(self, path: str, batch_tokens: int, device: str) -> None:
        import torch

        from babelray.encoder.layers import LayerReader, longest_input
        from babelray.encoder.load import load_encoder, load_tokenizer
        from babelray.encoder.text_encoder import TextEncoder

        model, tokenizer = load_encoder(path, device), load_tokenizer(path, masks=False)
        reader = LayerReader(model, range(model.config.num_hidden_layers + 1))

        def read(ids_BT: Any, mask_BT: Any) -> Any:
            return torch.cat(list(reader(ids_BT, mask_BT).values()), -1)

        self.layers = reader.layers
        self.encoder = TextEncoder(read, reader.device, tokenizer, longest_input(model, tokenizer), batch_tokens)

    def __call__(self, texts: list[str]) -> dict[int, Tensor]:
        vectors = self.encoder.encode(texts)
        return dict(zip(self.layers, vectors.chunk(len(self.layers), dim=1), strict=True))
