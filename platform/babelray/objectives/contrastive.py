"""Contrastive alignment of translations: the multiple-negatives ranking loss.

    L = −1/B Σ_i log  exp(C · cos(x_i, y_i)) / Σ_{j ∈ N(i)} exp(C · cos(x_i, y_j)),   both directions averaged

x_i and y_i are the mean-pooled vectors of a word or sentence and of its translation in the hub, C = 20 is the scale
(an inverse temperature), and N(i) holds i and every other pair of the step that is not a translation of i, gathered
from all workers and accumulated parts. With hard negatives, N(i) of the first direction also holds, for every pair of
the step, the hub's entries nearest to its source, by the encoder before training, that are not its translations; with
`symmetric_negatives` the second direction has its own, in the other language. A pair with the same text on either side,
or a text that the dictionary gives as another translation, is never a negative.

Henderson et al. (2017); for words encoded in isolation Vulić et al. (2023). Use it when there are dictionary pairs or
parallel sentences: of the objectives here it moves retrieval most with little data, since it asks not only that
translations be near but that others be far.

Vulić et al. (2023, section 2.1) write the loss with the positive outside of the sums, and with in-batch and hard
negatives v_{k,i}, those of the pair itself only, in sums of their own (`form: paper`):

    L = Σ_i  −C cos(x_i, y_i) + log Σ_{j ≠ i} exp(C cos(x_i, y_j)) + log Σ_k exp(C cos(x_i, v_{k,i}))

which has no lower bound of 0: its gradient does not vanish when every positive is nearest. Their experiments used the
common form of the sentence-transformers library (their footnote 5), from source to target only. Here it is the
default, in both directions.

Shapes: N pairs of a step, B of a part, K texts of a pair, H hard negatives of a pair, M of all pairs, U unique texts,
T subwords, D width.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from babelray.objectives.objective import (
    OBJECTIVES,
    Batch,
    Examples,
    GlobalObjective,
    Need,
    ObjectiveConfig,
    TrainingData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from babelray.storage import Location

Direction = Literal["forward", "backward"]
"""From a language to the hub, or from the hub to the language."""
Query = tuple[str, Direction, str]
"""A language, a direction, and an entry to be translated in it."""


@OBJECTIVES.register
class ContrastiveConfig(ObjectiveConfig):
    """Translations are nearer to each other than to the other texts of a batch and to hard negatives."""

    title: ClassVar[str] = "Contrastive"
    needs: ClassVar[tuple[Need, ...]] = ("dictionary", "induced", "parallel")

    kind: Literal["contrastive"] = "contrastive"
    pairs: Literal["words", "induced", "sentences", "synonyms"] = "sentences"
    """The pairs: entries of the dictionary, encoded alone; entries of the dictionary that the align stage induced;
    parallel sentences; or names of the same concept, in a language and in the hub, and in the hub itself."""
    synonyms: str | None = None
    """`synonyms`: files of names, one `CUI||name` per line, with {lang} in their path. Languages may lack one."""
    batch_size: int = Field(128, ge=2)
    """Pairs per step, over all workers and accumulated parts."""
    limit: int | None = Field(None, ge=1)
    """Maximum number of pairs per language, the first ones: dictionaries often have the most frequent words first."""
    scale: float = Field(20.0, gt=0)
    """C: the inverse temperature."""
    form: Literal["softmax", "paper"] = "softmax"
    """`softmax`: the positive and all negatives in one sum. `paper`: the equation of Vulić et al. (2023)."""
    hard_negatives: int = Field(0, ge=0)
    """Number of hard negatives per pair: the hub's entries nearest to its source that are not its translations."""
    candidates: int = Field(0, ge=0)
    """Hard negatives are chosen among the dictionary's entries and this number of the most frequent words."""
    symmetric_negatives: bool = False
    """Whether the hub's entries have hard negatives too, in the other language."""
    refresh_negatives: Literal["once", "every epoch"] = "once"
    """When hard negatives are mined: before training, or also after every epoch, by the encoder as it is then."""
    special_tokens: bool = False
    """Whether the mean over a text's subwords includes special tokens, as in Vulić et al. (2023)."""

    @model_validator(mode="after")
    def _check_synonyms(self) -> ContrastiveConfig:
        if (self.pairs == "synonyms") != (self.synonyms is not None) or "{lang}" not in (self.synonyms or "{lang}"):
            raise ValueError("`pairs: synonyms` needs `synonyms`, a path with {lang} in it, and only that needs it")
        return self

    def required_data(self) -> tuple[Need, ...]:
        data: dict[str, tuple[Need, ...]] = {
            "words": ("dictionary",),
            "induced": ("induced",),
            "sentences": ("parallel",),
            "synonyms": (),
        }
        return data[self.pairs]

    def sources(self, languages: Sequence[str], hub: str) -> list[Location]:
        return list(self.synonym_files(languages).values())

    def synonym_files(self, languages: Sequence[str]) -> dict[str, Location]:
        """The existing files of names, by language."""
        from babelray.storage import Location

        path = self.synonyms
        files = {code: Location.parse(path.replace("{lang}", code)) for code in languages} if path else {}
        return {code: location for code, location in files.items() if location.is_file()}

    def build(self, training_data: TrainingData) -> Contrastive:
        return Contrastive(self, training_data)


def ranking_terms(
    source_ND: Tensor,
    target_ND: Tensor,
    same_NN: Tensor,
    scale: float,
    negatives_MD: Tensor | None = None,
    translates_NM: Tensor | None = None,
    backward_MD: Tensor | None = None,
    backward_translates_NM: Tensor | None = None,
) -> Tensor:
    """The multiple-negatives ranking loss of each pair (N,), the mean of both directions.

    `same_NN[i, j]` is true where pair j is a translation of pair i, as every pair is of itself: such a pair is never a
    negative. `negatives_MD` are further negatives of the sources, except where `translates_NM` is true; `backward_MD`
    those of the targets.
    """
    import torch
    from torch.nn import functional

    source_ND, target_ND = functional.normalize(source_ND.float()), functional.normalize(target_ND.float())
    cosine_NN = source_ND @ target_ND.T
    diagonal_NN = torch.eye(len(cosine_NN), dtype=torch.bool, device=cosine_NN.device)
    logits_NN = (scale * cosine_NN).masked_fill(same_NN & ~diagonal_NN, float("-inf"))
    labels_N = torch.arange(len(logits_NN), device=logits_NN.device)

    def direction(queries_ND: Tensor, logits_NK: Tensor, hard_MD: Tensor | None, correct_NM: Tensor | None) -> Tensor:
        if hard_MD is not None and correct_NM is not None:
            hard_NM = scale * queries_ND @ functional.normalize(hard_MD.float()).T
            logits_NK = torch.cat([logits_NK, hard_NM.masked_fill(correct_NM, float("-inf"))], 1)
        return functional.cross_entropy(logits_NK, labels_N, reduction="none")

    forward_N = direction(source_ND, logits_NN, negatives_MD, translates_NM)
    return (forward_N + direction(target_ND, logits_NN.T, backward_MD, backward_translates_NM)) / 2


def paper_terms(
    source_ND: Tensor,
    target_ND: Tensor,
    same_NN: Tensor,
    scale: float,
    hard_NHD: Tensor | None = None,
    translates_NH: Tensor | None = None,
) -> Tensor:
    """The loss of each pair (N,) as the paper writes it, from source to target; a sum without a negative counts as 0.

    `hard_NHD` are each pair's own hard negatives; those where `translates_NH` is true do not count.
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


def _log_sum(logits_NK: Tensor, excluded_NK: Tensor) -> Tensor:
    """Log Σ exp of each row without the excluded columns; 0 where all are excluded."""
    import torch

    empty_N = excluded_NK.all(1)
    included_NK = logits_NK.masked_fill(excluded_NK & ~empty_N.unsqueeze(1), float("-inf"))
    return torch.where(empty_N, torch.zeros_like(included_NK[:, 0]), included_NK.logsumexp(1))


def pairs_of(config: ContrastiveConfig, training_data: TrainingData, code: str) -> tuple[list[str], list[str]]:
    """The pairs of a language."""
    if config.pairs == "synonyms":
        return training_data.synonyms(code, config.synonyms or "")
    if config.pairs == "induced":
        return training_data.induced_dictionary(code)
    return training_data.dictionary(code) if config.pairs == "words" else training_data.parallel(code)


class Contrastive(GlobalObjective):
    """Translations of all languages with the hub, mixed in one batch."""

    def __init__(self, config: ContrastiveConfig, training_data: TrainingData) -> None:
        self.config = config
        codes = [code for code in training_data.languages if code != training_data.hub or config.pairs == "synonyms"]
        pairs = {code: pairs_of(config, training_data, code) for code in codes}
        self.pairs = {code: (a[: config.limit], b[: config.limit]) for code, (a, b) in pairs.items()}
        super().__init__(config, training_data, {code: len(sources) for code, (sources, _) in self.pairs.items()})
        self._translations = self._index_translations(pairs)
        self.hard_negatives: dict[Query, list[str]] = {}

    def _index_translations(self, pairs: Mapping[str, tuple[list[str], list[str]]]) -> defaultdict[Query, set[str]]:
        """The translations of every text, also of those beyond the limit, which are no negatives either."""
        translations: defaultdict[Query, set[str]] = defaultdict(set)
        for code, columns in pairs.items():
            for source, target in zip(*columns, strict=True):
                translations[code, "forward", source].add(target)
                translations["", "backward", target].add(source)  # in any language: a batch has negatives of all
                if code == self.training_data.hub:  # a synonym; a word means the same as itself
                    translations[code, "forward", source].add(source)
                    translations["", "backward", target].add(target)
        return translations

    def translations(self, query: Query) -> set[str]:
        code, direction, text = query
        return self._translations[code if direction == "forward" else "", direction, text]

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that have hard negatives."""
        if not self.config.hard_negatives:
            return ()
        return ("forward", "backward") if self.config.symmetric_negatives else ("forward",)

    def start(self, device: torch.device) -> None:
        if self.directions and not self.hard_negatives:
            self.mine_negatives(self.training_data.initial_encoder().to(device), device)

    def needs_refresh(self, step: int) -> bool:
        """After the step that an epoch ends in; not before the first."""
        if not self.directions or self.config.refresh_negatives == "once" or step == 0:
            return False
        return step * self.batch_size // self.count > (step - 1) * self.batch_size // self.count

    def refresh(self, model: PreTrainedModel, device: torch.device) -> None:
        self.mine_negatives(model.base_model, device)

    @property
    def state(self) -> Any:
        if self.config.refresh_negatives == "once":
            return None
        return [[*query, negatives] for query, negatives in self.hard_negatives.items()]

    def restore(self, state: Any) -> None:
        self.hard_negatives = {(code, direction, text): negatives for code, direction, text, negatives in state or []}

    def mine_negatives(self, model: PreTrainedModel, device: torch.device) -> None:
        """For every entry, find the nearest ones of the other language that are not its translations."""
        from babelray.encoder.text_encoder import TextEncoder

        def read(ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
            return model(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state

        encoder = TextEncoder(read, device, self.training_data.tokenizer, self.training_data.max_tokens)

        def encode(texts: list[str]) -> Tensor:
            return encoder.encode(texts, "all" if self.config.special_tokens else "mean")

        hub = self._candidates([targets for _, targets in self.pairs.values()], self.training_data.hub)
        hub_MD = encode(hub)
        for code, (sources, targets) in self.pairs.items():
            queries = sorted(set(sources))
            if queries:
                self._set_nearest(code, "forward", queries, encode(queries), hub, hub_MD)
            if queries and "backward" in self.directions:
                candidates, queries = self._candidates([sources], code), sorted(set(targets))
                self._set_nearest(code, "backward", queries, encode(queries), candidates, encode(candidates))

    def _candidates(self, columns: Sequence[Sequence[str]], code: str) -> list[str]:
        """The texts that hard negatives of a language are chosen from."""
        frequent = self.training_data.vocabulary(code, self.config.candidates) if self.config.candidates else []
        return sorted({text for column in columns for text in column}.union(frequent))

    def _set_nearest(
        self,
        code: str,
        direction: Direction,
        queries: list[str],
        queries_ND: Tensor,
        candidates: list[str],
        candidates_MD: Tensor,
    ) -> None:
        from babelray.vectors.retrieval import nearest

        count = self.config.hard_negatives
        most = max(len(self.translations((code, direction, text))) for text in queries)
        _, nearest_NK = nearest(queries_ND, candidates_MD, min(len(candidates), count + most))
        for text, row in zip(queries, nearest_NK.tolist(), strict=True):
            query = code, direction, text
            others = [candidates[i] for i in row if candidates[i] not in self.translations(query)]
            self.hard_negatives[query] = others[:count]

    def collate(self, examples: Examples, generator: np.random.Generator) -> Batch:
        """The texts of a batch, each once since many words share their nearest ones, and `rows` (B, K): the source, the
        target and the hard negatives of each pair.
        """
        import numpy as np
        import torch

        from babelray.encoder.pool import group_count

        sides = [self._texts(examples, 0), self._texts(examples, 1)]
        sides += [self._negatives(examples, direction) for direction in self.directions]
        texts_BK = np.concatenate([np.reshape(texts, (len(examples), -1)) for texts in sides], 1)
        unique, rows_BK = np.unique(texts_BK, return_inverse=True)
        texts = unique.tolist()
        texts += texts[:1] * (group_count(texts_BK.size) - len(texts))  # a group must not be empty
        batch: Batch = {"language": self.language_numbers([code for code, _ in examples])}
        batch["rows"] = torch.from_numpy(rows_BK)
        batch["ids"], batch["mask"], batch["pooled"] = self.encode(texts)
        if self.config.special_tokens:
            batch["pooled"] = batch["mask"].bool()
        return batch

    def _texts(self, examples: Examples, side: int) -> list[str]:
        return [self.pairs[code][side][row] for code, row in examples]

    def _queries(self, examples: Examples, direction: Direction) -> list[Query]:
        texts = self._texts(examples, 0 if direction == "forward" else 1)
        return [(code, direction, text) for (code, _), text in zip(examples, texts, strict=True)]

    def _negatives(self, examples: Examples, direction: Direction) -> list[str]:
        """The hard negatives of every example, equally many: a translation, which never counts, fills up."""
        texts: list[str] = []
        for query in self._queries(examples, direction):
            count = self.config.hard_negatives
            texts += (self.hard_negatives[query] + [min(self.translations(query))] * count)[:count]
        return texts

    def global_context(self, step: int) -> Batch:
        """Which pair, and which hard negative, translates which source or target."""
        examples = self.examples(step)
        sources, targets = self._texts(examples, 0), self._texts(examples, 1)
        same_NN = _membership(self._known_translations(examples, "forward"), targets)
        same_NN = same_NN | same_NN.T | equality_matrix(targets)
        same_NN = same_NN | equality_matrix(list(zip((code for code, _ in examples), sources, strict=True)))
        context = {"same": same_NN}
        for direction in self.directions:
            translations = self._known_translations(examples, direction)
            context[direction] = _membership(translations, self._negatives(examples, direction))
        return context

    def _known_translations(self, examples: Examples, direction: Direction) -> list[set[str]]:
        return [self.translations(query) for query in self._queries(examples, direction)]

    def vectors(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The source, the target and the hard negatives (H per direction that has some) of each pair: (B, K, D)."""
        from torch.nn.functional import embedding

        from babelray.encoder.pool import group_count, mean_by_length

        groups = group_count(batch["rows"].numel())  # not the number of texts, which differs between workers
        vectors_UD = mean_by_length(model.base_model, batch["ids"], batch["mask"], batch["pooled"], groups)
        return embedding(batch["rows"], vectors_UD)  # deterministic, unlike indexing

    def global_terms(self, vectors_ND: Tensor, global_context: Batch) -> Tensor:
        source_ND, target_ND = vectors_ND[:, 0], vectors_ND[:, 1]
        count, scale, same_NN = self.config.hard_negatives, self.config.scale, global_context["same"]
        hard = dict(zip(self.directions, vectors_ND[:, 2:].split(max(1, count), 1), strict=False))
        if self.config.form == "softmax":
            negatives = [t for side in self.directions for t in (hard[side].flatten(0, 1), global_context[side])]
            return ranking_terms(source_ND, target_ND, same_NN, scale, *negatives)
        own = {side: (hard[side], own_columns(global_context[side], count)) for side in self.directions}
        terms_N = paper_terms(source_ND, target_ND, same_NN, scale, *own.get("forward", ()))
        if not self.config.symmetric_negatives:
            return terms_N
        return (terms_N + paper_terms(target_ND, source_ND, same_NN.T, scale, *own.get("backward", ()))) / 2


def own_columns(marks_NM: Tensor, count: int) -> Tensor:
    """Of marks (N, N · H) at all pairs' hard negatives, those (N, H) at the pair's own."""
    import torch

    rows_N = torch.arange(len(marks_NM), device=marks_NM.device)
    return marks_NM.unflatten(1, (-1, count))[rows_N, rows_N]


def _membership(sets: Sequence[set[str]], texts: Sequence[str]) -> Tensor:
    """Which set (N) has which text (M) as a member: (N, M)."""
    import torch

    columns: dict[str, list[int]] = defaultdict(list)
    for column, text in enumerate(texts):
        columns[text].append(column)
    member_NM = torch.zeros(len(sets), len(texts), dtype=torch.bool)
    for row, members in enumerate(sets):
        member_NM[row, [column for member in members if member in columns for column in columns[member]]] = True
    return member_NM


def equality_matrix(values: Sequence[object]) -> Tensor:
    """Which of N values are equal: (N, N)."""
    import torch

    first = {value: number for number, value in reversed(list(enumerate(values)))}
    numbers_N = torch.tensor([first[value] for value in values])
    return numbers_N.unsqueeze(0) == numbers_N.unsqueeze(1)
