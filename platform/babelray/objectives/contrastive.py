"""Contrastive alignment of translations: the multiple-negatives ranking loss.

    L = −1/B Σ_i log  exp(C · cos(x_i, y_i)) / Σ_{j ∈ N(i)} exp(C · cos(x_i, y_j)),   both directions averaged

x_i and y_i are the mean-pooled vectors of a word or sentence and of its translation in the hub, C = 20 is the scale
(an inverse temperature), and N(i) holds i and every other pair of the step that is not a translation of i, gathered
from all workers and accumulated parts. With hard negatives, N(i) of the first direction also holds, for every pair of
the step, the hub's entries that the encoder took for its translations before training, wrongly; with `both_ways` the
second direction has its own, in the other language. A pair with the same text on either side, or a text that the
dictionary gives as another translation, is never a negative.

Henderson et al. (2017); for words encoded in isolation Vulić et al. (2023). Use it when there are dictionary pairs or
parallel sentences: of the objectives here it moves retrieval most with little data, since it asks not only that
translations be near but that others be far.

Vulić et al. (2023, section 2.1) write the loss with the positive outside of the sums, and with in-batch and hard
negatives v_{k,i}, those of the pair itself only, in sums of their own (`form: paper`):

    L = Σ_i  −C cos(x_i, y_i) + log Σ_{j ≠ i} exp(C cos(x_i, y_j)) + log Σ_k exp(C cos(x_i, v_{k,i}))

which has no lower bound of 0 and goes on pushing when all is in order. Their experiments used the common form of the
sentence-transformers library (their footnote 5), of source to target only. Here it is the default, in both directions.

Shapes: N pairs of a step, B of a part, K texts of a pair, H hard negatives of a pair, M of all pairs, U unlike texts,
T subwords, D width.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from babelray.objectives.objective import Batch, Examples, Materials, ObjectiveConfig, WholeObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from babelray.storage import Place

Way = Literal["forth", "back"]
"""From a language to the hub, or from the hub to the language."""
Text = tuple[str, Way, str]
"""A language, a direction, and an entry that is to be translated in it."""


class ContrastiveConfig(ObjectiveConfig):
    kind: Literal["contrastive"] = "contrastive"
    pairs: Literal["words", "induced", "sentences", "synonyms"] = "sentences"
    """What is paired: entries of the dictionary, encoded alone; of the one that the align stage induced; parallel
    sentences; or names of the same concept, in a language and in the hub, and in the hub itself."""
    synonyms: str | None = None
    """`synonyms`: files of names, `CUI||name` a line, with {lang} in their path. Not every language must have one."""
    batch_size: int = Field(128, ge=2)
    """Pairs a step, over all workers and accumulated parts."""
    limit: int | None = Field(None, ge=1)
    """Only the first so many pairs of each language: dictionaries often have the most frequent words first."""
    scale: float = Field(20.0, gt=0)
    """C: how sharply the nearest negatives count."""
    form: Literal["softmax", "paper"] = "softmax"
    """`softmax`: the positive and all negatives in one sum. `paper`: the equation of Vulić et al. (2023)."""
    hard_negatives: int = Field(0, ge=0)
    """For each pair, how many of the hub's entries nearest to its source, by the encoder before training, are negatives
    too."""
    candidates: int = Field(0, ge=0)
    """Hard negatives are looked for among the dictionary's entries, and so many of the most frequent words."""
    both_ways: bool = False
    """Whether the hub's entries get hard negatives too, in the other language."""
    mine: Literal["once", "every epoch"] = "once"
    """Whether hard negatives are those of the encoder before training, or looked for again after every epoch."""
    special_tokens: bool = False
    """Whether special tokens count in the mean that stands for a text, as in Vulić et al. (2023)."""

    @model_validator(mode="after")
    def _synonyms_are_named(self) -> ContrastiveConfig:
        if (self.pairs == "synonyms") != (self.synonyms is not None) or "{lang}" not in (self.synonyms or "{lang}"):
            raise ValueError("`pairs: synonyms` needs `synonyms`, a path with {lang} in it, and only that needs it")
        return self

    def synonym_files(self, languages: Sequence[str]) -> dict[str, Place]:
        """The files of names that there are."""
        from babelray.storage import Place

        path = self.synonyms
        places = {code: Place.parse(path.replace("{lang}", code)) for code in languages} if path else {}
        return {code: place for code, place in places.items() if place.is_file()}


def ranking_terms(
    source_ND: Tensor,
    target_ND: Tensor,
    same_NN: Tensor,
    scale: float,
    negatives_MD: Tensor | None = None,
    translates_NM: Tensor | None = None,
    back_MD: Tensor | None = None,
    back_translates_NM: Tensor | None = None,
) -> Tensor:
    """The multiple-negatives ranking loss of each pair (N,), the mean of both directions.

    `same_NN[i, j]` is true where pair j is a translation of pair i, as every pair is of itself: such a pair is never a
    negative. `negatives_MD` are more negatives for the sources, but for those that a source translates to; `back_MD`
    the same for the targets.
    """
    import torch
    from torch.nn import functional

    source_ND, target_ND = functional.normalize(source_ND.float()), functional.normalize(target_ND.float())
    cosine_NN = source_ND @ target_ND.T
    diagonal_NN = torch.eye(len(cosine_NN), dtype=torch.bool, device=cosine_NN.device)
    logits_NN = (scale * cosine_NN).masked_fill(same_NN & ~diagonal_NN, float("-inf"))
    labels_N = torch.arange(len(logits_NN), device=logits_NN.device)

    def direction(queries_ND: Tensor, logits_NK: Tensor, more_MD: Tensor | None, right_NM: Tensor | None) -> Tensor:
        if more_MD is not None and right_NM is not None:
            hard_NM = scale * queries_ND @ functional.normalize(more_MD.float()).T
            logits_NK = torch.cat([logits_NK, hard_NM.masked_fill(right_NM, float("-inf"))], 1)
        return functional.cross_entropy(logits_NK, labels_N, reduction="none")

    forward_N = direction(source_ND, logits_NN, negatives_MD, translates_NM)
    return (forward_N + direction(target_ND, logits_NN.T, back_MD, back_translates_NM)) / 2


def paper_terms(
    source_ND: Tensor,
    target_ND: Tensor,
    same_NN: Tensor,
    scale: float,
    hard_NHD: Tensor | None = None,
    translates_NH: Tensor | None = None,
) -> Tensor:
    """The loss of each pair (N,) as the paper writes it, from source to target; a sum without a negative counts as 0.

    `hard_NHD` are each pair's own hard negatives, `translates_NH` says which of them are none.
    """
    import torch
    from torch.nn import functional

    source_ND, target_ND = functional.normalize(source_ND.float()), functional.normalize(target_ND.float())
    cosine_NN = scale * source_ND @ target_ND.T
    terms_N = _log_sum(cosine_NN, same_NN) - cosine_NN.diagonal()
    if hard_NHD is not None and translates_NH is not None:
        hard_NH = scale * torch.einsum("nd,nhd->nh", source_ND, functional.normalize(hard_NHD.float(), dim=-1))
        terms_N = terms_N + _log_sum(hard_NH, translates_NH)
    return terms_N


def _log_sum(logits_NK: Tensor, without_NK: Tensor) -> Tensor:
    """Log Σ exp over what is not left out; 0 where all is."""
    import torch

    none_N = without_NK.all(1)
    kept_NK = logits_NK.masked_fill(without_NK & ~none_N.unsqueeze(1), float("-inf"))
    return torch.where(none_N, torch.zeros_like(kept_NK[:, 0]), kept_NK.logsumexp(1))


def pairs_of(config: ContrastiveConfig, materials: Materials, code: str) -> tuple[list[str], list[str]]:
    """What there is to learn of a language."""
    if config.pairs == "synonyms":
        return materials.synonyms(code, config.synonyms or "")
    read = {"words": materials.dictionary, "induced": materials.induced, "sentences": materials.parallel}
    return read[config.pairs](code)


class Contrastive(WholeObjective):
    """Translations of all languages with the hub, mixed in one batch."""

    def __init__(self, config: ContrastiveConfig, materials: Materials) -> None:
        self.config = config
        codes = [code for code in materials.languages if code != materials.hub or config.pairs == "synonyms"]
        pairs = {code: pairs_of(config, materials, code) for code in codes}
        self.pairs = {code: (a[: config.limit], b[: config.limit]) for code, (a, b) in pairs.items()}
        super().__init__(config, materials, {code: len(sources) for code, (sources, _) in self.pairs.items()})
        self.known: dict[Text, set[str]] = defaultdict(set)
        for code, given in pairs.items():  # also what the limit leaves out: it is no negative either
            for source, target in zip(*given, strict=True):
                self.known[code, "forth", source].add(target)
                self.known["", "back", target].add(source)  # in any language: negatives of all meet in a batch
                if code == materials.hub:  # a synonym; a word means the same as itself
                    self.known[code, "forth", source].add(source)
                    self.known["", "back", target].add(target)
        self.hard: dict[Text, list[str]] = {}

    def translations(self, asked: Text) -> set[str]:
        code, way, text = asked
        return self.known[code if way == "forth" else "", way, text]

    @property
    def ways(self) -> tuple[Way, ...]:
        """The directions that have hard negatives."""
        if not self.config.hard_negatives:
            return ()
        return ("forth", "back") if self.config.both_ways else ("forth",)

    def start(self, device: torch.device) -> None:
        if self.ways and not self.hard:
            self.mine(self.materials.initial_encoder().to(device), device)

    def renews(self, step: int) -> bool:
        """After the step that an epoch ends in; not before the first."""
        if not self.ways or self.config.mine == "once" or step == 0:
            return False
        return step * self.batch_size // self.count > (step - 1) * self.batch_size // self.count

    def renew(self, model: PreTrainedModel, device: torch.device) -> None:
        self.mine(model.base_model, device)

    @property
    def state(self) -> Any:
        if self.config.mine == "once":
            return None
        return [[*text, negatives] for text, negatives in self.hard.items()]

    def restore(self, state: Any) -> None:
        self.hard = {(code, way, text): negatives for code, way, text, negatives in state or []}

    def mine(self, model: PreTrainedModel, device: torch.device) -> None:
        """For every entry, the nearest ones of the other language that are not its translations, by an encoder."""
        from babelray.encoder.text_encoder import TextEncoder

        def read(ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
            return model(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state

        encoder = TextEncoder(read, device, self.materials.tokenizer, self.materials.max_tokens)

        def encode(texts: list[str]) -> Tensor:
            return encoder.sentences(texts, "all" if self.config.special_tokens else "mean")

        hub = self._entries([targets for _, targets in self.pairs.values()], self.materials.hub)
        hub_MD = encode(hub)
        for code, (sources, targets) in self.pairs.items():
            asked = sorted(set(sources))
            if asked:
                self._keep_nearest(code, "forth", asked, encode(asked), hub, hub_MD)
            if asked and "back" in self.ways:
                entries, asked = self._entries([sources], code), sorted(set(targets))
                self._keep_nearest(code, "back", asked, encode(asked), entries, encode(entries))

    def _entries(self, texts: Sequence[Sequence[str]], code: str) -> list[str]:
        """What hard negatives of a language are chosen from."""
        more = self.materials.vocabulary(code, self.config.candidates) if self.config.candidates else []
        return sorted({text for some in texts for text in some}.union(more))

    def _keep_nearest(
        self, code: str, way: Way, asked: list[str], asked_ND: Tensor, entries: list[str], entries_MD: Tensor
    ) -> None:
        from babelray.vectors.retrieval import nearest

        wanted = self.config.hard_negatives
        most = max(len(self.translations((code, way, text))) for text in asked)
        _, found_NK = nearest(asked_ND, entries_MD, min(len(entries), wanted + most))
        for text, row in zip(asked, found_NK.tolist(), strict=True):
            others = [entries[i] for i in row if entries[i] not in self.translations((code, way, text))]
            self.hard[code, way, text] = others[:wanted]

    def make(self, examples: Examples, generator: np.random.Generator) -> Batch:
        """Of each pair its source, its target and its hard negatives, as `rows` (B, K) of texts, each of which is there
        once: many words have the same few nearest ones.
        """
        import numpy as np
        import torch

        from babelray.encoder.pool import group_count

        sides = [self._texts(examples, 0), self._texts(examples, 1), *(self._hard(examples, way) for way in self.ways)]
        all_BK = np.concatenate([np.reshape(texts, (len(examples), -1)) for texts in sides], 1)
        unique, rows_BK = np.unique(all_BK, return_inverse=True)
        texts = unique.tolist()
        texts += texts[:1] * (group_count(all_BK.size) - len(texts))  # a group must not be empty
        batch: Batch = {"language": self.language_numbers([code for code, _ in examples])}
        batch["rows"] = torch.from_numpy(rows_BK)
        batch["ids"], batch["mask"], batch["pooled"] = self.encode(texts)
        if self.config.special_tokens:
            batch["pooled"] = batch["mask"].bool()
        return batch

    def _texts(self, examples: Examples, side: int) -> list[str]:
        return [self.pairs[code][side][row] for code, row in examples]

    def _asked(self, examples: Examples, way: Way) -> list[Text]:
        texts = self._texts(examples, 0 if way == "forth" else 1)
        return [(code, way, text) for (code, _), text in zip(examples, texts, strict=True)]

    def _hard(self, examples: Examples, way: Way) -> list[str]:
        """The same number for every example: where there are too few, a translation fills up, which never counts."""
        texts: list[str] = []
        for asked in self._asked(examples, way):
            wanted = self.config.hard_negatives
            texts += (self.hard[asked] + [min(self.translations(asked))] * wanted)[:wanted]
        return texts

    def whole(self, step: int) -> Batch:
        """Which pair, and which hard negative, translates which source or target."""
        examples = self.examples(step)
        sources, targets = self._texts(examples, 0), self._texts(examples, 1)
        known = [self.translations(asked) for asked in self._asked(examples, "forth")]
        same_NN = _stands_in(known, targets)
        same_NN = same_NN | same_NN.T | equal(targets)
        same_NN = same_NN | equal(list(zip((code for code, _ in examples), sources, strict=True)))
        found = {"same": same_NN}
        for way in self.ways:
            known = [self.translations(asked) for asked in self._asked(examples, way)]
            found[way] = _stands_in(known, self._hard(examples, way))
        return found

    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """Of each pair its source, its target and its H hard negatives, for each direction that has some: (B, K, D)."""
        from torch.nn.functional import embedding

        from babelray.encoder.pool import group_count, mean_pool, read_by_length

        groups = group_count(batch["rows"].numel())  # not of the texts, of which workers have unequally many
        hidden_UTD = read_by_length(model.base_model, batch["ids"], batch["mask"], groups)
        return embedding(batch["rows"], mean_pool(hidden_UTD, batch["pooled"]))  # the same bits, unlike an index's

    def whole_terms(self, vectors_ND: Tensor, whole: Batch) -> Tensor:
        source_ND, target_ND = vectors_ND[:, 0], vectors_ND[:, 1]
        hard = dict(zip(self.ways, vectors_ND[:, 2:].split(max(1, self.config.hard_negatives), 1), strict=False))
        if self.config.form == "softmax":
            more = [tensor for way in self.ways for tensor in (hard[way].flatten(0, 1), whole[way])]
            return ranking_terms(source_ND, target_ND, whole["same"], self.config.scale, *more)
        forth = [hard["forth"], own(whole["forth"], self.config.hard_negatives)] if self.ways else []
        terms_N = paper_terms(source_ND, target_ND, whole["same"], self.config.scale, *forth)
        if not self.config.both_ways:
            return terms_N
        back = [hard["back"], own(whole["back"], self.config.hard_negatives)] if self.ways else []
        return (terms_N + paper_terms(target_ND, source_ND, whole["same"].T, self.config.scale, *back)) / 2


def own(marks_NM: Tensor, count: int) -> Tensor:
    """Of marks (N, N · H) of all pairs' hard negatives, those (N, H) of the pair itself."""
    import torch

    rows_N = torch.arange(len(marks_NM), device=marks_NM.device)
    return marks_NM.unflatten(1, (-1, count))[rows_N, rows_N]


def _stands_in(sets: Sequence[set[str]], texts: Sequence[str]) -> Tensor:
    """Which text (M) stands in which set (N): (N, M)."""
    import torch

    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        places[text].append(place)
    found_NM = torch.zeros(len(sets), len(texts), dtype=torch.bool)
    for row, members in enumerate(sets):
        found_NM[row, [place for member in members if member in places for place in places[member]]] = True
    return found_NM


def equal(values: Sequence[object]) -> Tensor:
    """Which of N values are equal: (N, N)."""
    import torch

    first = {value: number for number, value in reversed(list(enumerate(values)))}
    numbers_N = torch.tensor([first[value] for value in values])
    return numbers_N.unsqueeze(0) == numbers_N.unsqueeze(1)
