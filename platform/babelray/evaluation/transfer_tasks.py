"""Tasks that an encoder is fine-tuned for in one language and tested on in all: zero-shot transfer (Hu et al., 2020).

Fine-tuning depends on luck with the seed as much as on the encoder: every score is the mean over several seeds, and
their standard deviation stands beside it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from babelray.config import Config
from babelray.errors import DataError
from babelray.evaluation.task import EvaluationTask, Result
from babelray.evaluation.tatoeba import MACROLANGUAGES
from babelray.languages import LANGUAGES
from babelray.storage import Place
from babelray.training.config import FineTuningConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from babelray.encoder.load import HeadKind
    from babelray.objectives.labelled import Example

Ranges = dict[str, tuple[float, float]]


def names_of(code: str) -> list[str]:
    """What files and columns may call a language: `de`, `deu`, `deu_Latn`.

    >>> names_of("zh")
    ['zh', 'cmn', 'cmn_Hans', 'zho', 'zho_Hans']
    """
    if code not in LANGUAGES:
        return [code]
    language = LANGUAGES[code]
    codes = [language.iso639_3, *(macro for macro, own in MACROLANGUAGES.items() if own == language.iso639_3)]
    return [code, *(name for iso in codes for name in (iso, f"{iso}_{language.script}"))]


class Reading(NamedTuple):
    """How texts are given to the encoder, and what can be answered."""

    tokenizer: PreTrainedTokenizerBase
    longest: int
    labels: Sequence[str]


class TransferTask(EvaluationTask):
    """A task with training data. `{lang}` in a path stands for a language: `de`, or `deu`, or `deu_Latn`."""

    head: ClassVar[HeadKind]

    train: str
    """Where the training data lie: a file or a pattern, with `{lang}` as in `data`."""
    train_languages: list[str] | None = Field(None, min_length=1)
    """Those that are learned from; the hub by default."""
    hub: str = "en"
    languages: list[str] | None = Field(None, min_length=1)
    """Those that are tested; all that there are data of by default. The languages learned from are rows like others."""
    seeds: list[int] = Field([1, 2, 3], min_length=1)
    """Fine-tuning is repeated with each: they draw the head's first weights, the order of the examples, dropout."""
    fine_tuning: FineTuningConfig = Field(default_factory=FineTuningConfig)
    """How the encoder is fine-tuned."""
    max_tokens: int = Field(128, ge=16)
    """Subwords of a text that are read, special ones included; less if the encoder takes less."""

    @field_validator("layer")
    @classmethod
    def _all_layers_learn(cls, layer: int | None) -> int | None:
        if layer is not None:
            raise ValueError("fine-tuning works on the whole encoder: leave out `layer`")
        return layer

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError("seeds are different numbers, 0 or more")
        return seeds

    @model_validator(mode="after")
    def _is_told_apart(self) -> Self:
        if not self._tells_languages(self.data, training=False):
            raise ValueError("nothing says which language the data are of: put {lang} into the path of `data`")
        if len(self.learned) > 1 and not self._tells_languages(self.train, training=True):
            raise ValueError("nothing says which language training data are of: put {lang} into the path of `train`")
        if self._trains_on_tests():
            raise ValueError("`train` and `data` are the same: the answers would be learned by heart")
        return self

    def _tells_languages(self, pattern: str, training: bool) -> bool:
        return "{lang}" in pattern

    def _trains_on_tests(self) -> bool:
        return self.train == self.data

    @property
    def learned(self) -> list[str]:
        return self.train_languages or [self.hub]

    def _files(self, pattern: str, code: str) -> list[Place]:
        """The files of a language, by the first of its names that there are any of."""
        spelled = dict.fromkeys(pattern.replace("{lang}", name) for name in names_of(code))
        return next(filter(None, (Place.parse(name).glob() for name in spelled)), [])

    def _beside(self, place: Place) -> list[Place]:
        """Files that are read together with another."""
        return []

    def sources(self) -> list[Place]:
        tested = [place for code in self.languages or LANGUAGES for place in self._files(self.data, code)]
        if not tested:
            raise DataError(f"{self.label}: there are no test data at {self.data}", "Check the path.")
        learned = [place for code in self.learned for place in self._files(self.train, code)]
        if not learned:
            codes = ", ".join(self.learned)
            raise DataError(f"{self.label}: there are no training data of {codes} at {self.train}", "Check the path.")
        found = dict.fromkeys([*tested, *learned])
        return [*dict.fromkeys(also for place in found for also in (place, *self._beside(place)))]

    def training_data(self) -> dict[str, list[Any]]:
        """What is learned from, by language."""
        return self._all(self.train, self.learned, training=True, needed=True)

    def test_data(self) -> dict[str, list[Any]]:
        """What is tested on, by language."""
        return self._all(self.data, self.languages or list(LANGUAGES), training=False, needed=bool(self.languages))

    def _all(self, pattern: str, codes: Sequence[str], training: bool, needed: bool) -> dict[str, list[Any]]:
        found = {}
        for code in codes:
            items = [item for place in self._files(pattern, code) for item in self._read(place, code, training)]
            if items:
                found[code] = items
            elif needed:
                raise DataError(f"{self.label}: there are no examples of {code!r} at {pattern}", "Check the path.")
        if not found:
            raise DataError(f"{self.label}: there are no examples at {pattern}", "Check the path.")
        return found

    def answers(self, path: str, seed: int, progress: Callable[[int, int], None] | None = None) -> dict[str, list[Any]]:
        """What the encoder at a path, fine-tuned with one seed, answers to all tests, by language; as JSON has it."""
        from babelray.encoder.layers import longest_input
        from babelray.encoder.load import load_tokenizer, load_with_head
        from babelray.encoder.mapped import is_mapped
        from babelray.objectives.labelled import LabelledObjective, span_head, text_head, word_head
        from babelray.training.fine_tuning import fine_tune

        if is_mapped(path):
            problem = f"{self.label}: {path} is a mapped encoder, which cannot be fine-tuned"
            raise DataError(problem, "Give an encoder, or a task that only reads, such as tatoeba.")
        heads = {"classification": text_head, "tagging": word_head, "question-answering": span_head}
        learned, tested = self.training_data(), self.test_data()
        labels = self._labels(learned)
        tokenizer, model = load_tokenizer(path, masks=False), load_with_head(path, self.head, labels, seed)
        reading = Reading(tokenizer, min(self.max_tokens, longest_input(model, tokenizer)), labels)
        examples = {code: self._examples(items, reading) for code, items in learned.items()}
        objective = LabelledObjective(examples, heads[self.head], tokenizer, self.fine_tuning.batch_size, seed)
        fine_tune(model, objective, self.fine_tuning, progress)
        return {code: self._answer(model, items, reading) for code, items in tested.items()}

    def result(self, answers: Mapping[int, Mapping[str, list[Any]]]) -> Result:
        """What `answers` of each seed are worth."""
        labels = self._labels(self.training_data())
        scores, predictions = {}, {}
        for code, items in self.test_data().items():
            judged = [self._judge(items, some[code], labels, code) for some in answers.values()]
            spread = [measures[self.main] for measures, _ in judged]
            means = {name: fmean(measures[name] for measures, _ in judged) for name in judged[0][0]}
            deviation = stdev(spread) if len(spread) > 1 else 0.0
            scores[code] = {"examples": len(items), **means, f"{self.main}_spread": deviation}
            predictions[code] = {
                "hits": [round(fmean(some), 6) for some in zip(*(hits for _, hits in judged), strict=True)],
                "answers": {str(seed): some[code] for seed, some in answers.items()},
                "gold": [self._gold(item) for item in items],
            }
        return Result(scores, predictions)

    def score(self, path: str) -> Result:
        """Fine-tune the encoder with each seed, and score it in every language."""
        return self.result({seed: self.answers(path, seed) for seed in self.seeds})

    def _labels(self, learned: Mapping[str, list[Any]]) -> list[str]:
        """All that can be answered; at least two."""
        found = sorted({label for items in learned.values() for item in items for label in self._labels_of(item)})
        if len(found) < 2:
            raise DataError(
                f"{self.label}: all training examples are {found[0]!r}", f"Give other data at {self.train}."
            )
        return found

    @abstractmethod
    def _read(self, place: Place, code: str, training: bool) -> list[Any]:
        """The examples of a language in a file."""

    @abstractmethod
    def _labels_of(self, item: Any) -> Sequence[str]: ...

    @abstractmethod
    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        """What is learned."""

    @abstractmethod
    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]: ...

    @abstractmethod
    def _judge(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        """The measures, and the score of each example between 0 and 1."""

    @abstractmethod
    def _gold(self, item: Any) -> Any:
        """The right answer, as JSON has it."""


class TextColumns(Config):
    """Where in a table the texts and their labels stand: names of columns, or for a file without a header numbers."""

    text: str | int = "text"
    """The text; with `{lang}` in it, each language has a column of its own."""
    second: str | int | None = None
    """A text that is read together with the first, such as the hypothesis of XNLI."""
    label: str | int = "label"
    """The class of the text, or of both."""
    language: str | int | None = None
    """A column that says of which language a row is."""

    @model_validator(mode="after")
    def _names_or_numbers(self) -> Self:
        given = [column for column in (self.text, self.second, self.label, self.language) if column is not None]
        if len({type(column) for column in given}) > 1:
            raise ValueError("give the names of all columns, or the numbers of all: a file has a header or has none")
        return self

    @property
    def tells_languages(self) -> bool:
        return self.language is not None or "{lang}" in str(self.text)


class Classification(TransferTask):
    """Classes of texts or of pairs of texts, from tables: `.tsv`, `.csv`, or `.jsonl` with an object a line."""

    main: ClassVar[str] = "accuracy"
    columns: ClassVar[Mapping[str, str]] = {
        "examples": ",.0f",
        "accuracy": "%",
        "accuracy_spread": "%",
        "macro_f1": "%",
        "unseen": ",.0f",
    }
    head: ClassVar[HeadKind] = "classification"
    task: Literal["classification"] = "classification"
    table: TextColumns = Field(default_factory=TextColumns)
    """The columns of the test table …"""
    train_table: TextColumns | None = None
    """… and of the training table, if they are others."""
    where: Ranges = Field(default_factory=dict)
    """Only test rows whose numbers in these columns lie between the two, both included …"""
    train_where: Ranges = Field(default_factory=dict)
    """… and only such training rows."""

    def _table(self, training: bool) -> TextColumns:
        return self.train_table or self.table if training else self.table

    def _tells_languages(self, pattern: str, training: bool) -> bool:
        return "{lang}" in pattern or self._table(training).tells_languages

    def _trains_on_tests(self) -> bool:
        return self.train == self.data and self.where == self.train_where

    def _read(self, place: Place, code: str, training: bool) -> list[Any]:
        from babelray.evaluation.classification import Columns, read_texts

        table = self._table(training)
        columns = Columns(table.text, table.label, table.second, table.language)
        return read_texts(place, columns, names_of(code), self.train_where if training else self.where)

    def _labels_of(self, item: Any) -> Sequence[str]:
        return [item.label]

    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        from babelray.evaluation.classification import text_examples

        return text_examples(items, reading.labels, reading.tokenizer, reading.longest)

    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]:
        from babelray.evaluation.classification import classify

        return classify(model, items, reading.labels, reading.tokenizer, reading.longest, self.batch_tokens)

    def _judge(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        from babelray.evaluation.classification import accuracy, macro_f1

        gold = [item.label for item in items]
        measures = {
            "accuracy": accuracy(gold, answers),
            "macro_f1": macro_f1(gold, answers),
            "unseen": sum(label not in labels for label in gold),
        }
        return measures, [float(a == b) for a, b in zip(gold, answers, strict=True)]

    def _gold(self, item: Any) -> Any:
        return item.label


class Tagging(TransferTask):
    """Tags of words, such as UPOS, or of spans, such as B-PER: CoNLL-U, a word a line, or a sentence a line."""

    main: ClassVar[str] = "f1"
    columns: ClassVar[Mapping[str, str]] = {
        "examples": ",.0f",
        "f1": "%",
        "f1_spread": "%",
        "precision": "%",
        "recall": "%",
        "accuracy": "%",
        "macro_f1": "%",
        "unread": ",.0f",
    }
    head: ClassVar[HeadKind] = "tagging"
    task: Literal["tagging"] = "tagging"
    layout: Literal["conllu", "lines", "table"] | None = None
    """How files are laid out; by default what their names and content say."""
    as_written: bool = False
    """Whether words are read in the sentence as it is written, where that is known; or joined by spaces, as in XTREME,
    so that no two share a subword."""

    def _read(self, place: Place, code: str, training: bool) -> list[Any]:
        from babelray.evaluation.tagging import read_tagged

        return read_tagged(place, self.layout)

    def _labels_of(self, item: Any) -> Sequence[str]:
        return item.tags

    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        from babelray.evaluation.tagging import word_examples

        return word_examples(items, reading.labels, reading.tokenizer, reading.longest, self.as_written)

    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]:
        from babelray.evaluation.tagging import tag

        found = tag(
            model, items, reading.labels, reading.tokenizer, reading.longest, self.batch_tokens, self.as_written
        )
        return [" ".join(tags) for tags in found]

    def _judge(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        from babelray.evaluation.tagging import UNREAD, are_spans, sentence_scores, span_scores, word_scores

        gold, found = [item.tags for item in items], [tags.split(" ") for tags in answers]
        named = are_spans(labels)
        measures = {
            **(span_scores if named else word_scores)(gold, found),
            "words": sum(map(len, gold)),
            "unread": sum(tags.count(UNREAD) for tags in found),
            "unseen": sum(tag not in labels for tags in gold for tag in tags),
        }
        return measures, sentence_scores(gold, found, named)

    def _gold(self, item: Any) -> Any:
        return " ".join(item.tags)


class QuestionAnswering(TransferTask):
    """Answers as spans of a text: SQuAD's format, or tables `NAME.qa.tsv` with `NAME.contexts.tsv` beside them."""

    main: ClassVar[str] = "f1"
    columns: ClassVar[Mapping[str, str]] = {
        "examples": ",.0f",
        "f1": "%",
        "f1_spread": "%",
        "exact_match": "%",
    }
    head: ClassVar[HeadKind] = "question-answering"
    task: Literal["question-answering"] = "question-answering"
    max_tokens: int = Field(384, ge=16)
    """Subwords of a window of the text with its question; less if the encoder takes less."""
    stride: int = Field(128, ge=1)
    """Windows of a long text start so many subwords apart."""

    def _beside(self, place: Place) -> list[Place]:
        from babelray.evaluation.question_answering import QUESTIONS, contexts_of

        return [contexts_of(place)] if place.name.endswith(QUESTIONS) else []

    def _read(self, place: Place, code: str, training: bool) -> list[Any]:
        from babelray.evaluation.question_answering import read_questions

        return read_questions(place)

    def _labels(self, learned: Mapping[str, list[Any]]) -> list[str]:
        return []

    def _labels_of(self, item: Any) -> Sequence[str]:
        return []

    def _examples(self, items: list[Any], reading: Reading) -> list[Example]:
        from babelray.evaluation.question_answering import question_examples

        return question_examples(items, reading.tokenizer, reading.longest, self.stride)

    def _answer(self, model: PreTrainedModel, items: list[Any], reading: Reading) -> list[Any]:
        from babelray.evaluation.question_answering import answer

        return answer(model, items, reading.tokenizer, reading.longest, self.batch_tokens, self.stride)

    def _judge(
        self, items: list[Any], answers: list[Any], labels: Sequence[str], code: str
    ) -> tuple[Mapping[str, float], list[float]]:
        from babelray.evaluation.question_answering import answer_scores

        by_question = answer_scores(answers, self._right(items), code)
        return {name: fmean(values) for name, values in by_question.items()}, by_question["f1"]

    def _right(self, items: list[Any]) -> list[list[str]]:
        return [[answer.text for answer in item.answers] for item in items]

    def _gold(self, item: Any) -> Any:
        return [answer.text for answer in item.answers]
