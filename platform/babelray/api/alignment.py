"""Two vocabularies in one space: fitting a mapping, applying it to new words, and scoring translations."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from collections.abc import Mapping as Values
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from babelray.api.components import configure_component
from babelray.api.progress import report_progress
from babelray.api.tables import Tabular
from babelray.errors import DataError
from babelray.lexicon.usable import IDENTICAL, identical_words, read_usable
from babelray.pipeline.summary import Column, Table
from babelray.storage import AnyPath, Location
from babelray.vectors.load import load_vectors
from babelray.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from babelray.lexicon.coverage import Coverage
    from babelray.lexicon.usable import Dictionary
    from babelray.mapping.collapse import Health
    from babelray.mapping.fitted import Mapping
    from babelray.mapping.method import MappingMethod

INTERVAL = "95 % interval of P@1"
MAPPING = "mapping.safetensors"
V = TypeVar("V", "Tensor", "np.ndarray", WordVectors)


@dataclass(frozen=True)
class WordMapping:
    """A fitted mapping of one language. Called with vectors, of words seen or not, it returns them mapped.

    Examples:
        >>> import numpy as np
        >>> import babelray as br
        >>> words, turn = ["a", "b", "c", "d"], np.array([[0.0, 1.0], [-1.0, 0.0]])
        >>> matrix = np.array([[2.0, 1.0], [-1.0, 1.0], [1.0, -2.0], [-3.0, 0.5]])
        >>> source, target = br.load_vectors(matrix, words), br.load_vectors(matrix @ turn, words)
        >>> result = br.align(source, target, [(word, word) for word in words], "procrustes")
        >>> new = np.array([[1.0, 3.0]])
        >>> mapped, expected = result.mapping(new), result.target_mapping(new @ turn)
        >>> bool(np.allclose(mapped, expected, atol=1e-5))
        True
    """

    fitted: Mapping
    """The mapping as the method returned it."""

    def __call__(self, vectors: V) -> V:
        """Map vectors: word vectors, or a matrix (N, D) as a tensor or numpy array."""
        import torch

        if isinstance(vectors, WordVectors):
            return vectors.with_matrix(self.fitted.transform(vectors.matrix))
        if isinstance(vectors, torch.Tensor):
            return self.fitted.transform(vectors.float())
        return self.fitted.transform(torch.as_tensor(vectors).float()).numpy()

    def save(self, folder: AnyPath) -> None:
        """Write a folder that `load_mapping` reads; an error if it holds a mapping already."""
        location = Location.parse(folder)
        if (location / MAPPING).exists():
            raise DataError(f"{folder} holds a mapping", "Name another folder, or delete it.")
        self.fitted.save(location)


def load_mapping(folder: AnyPath) -> WordMapping:
    """Load a mapping that was saved.

    Args:
        folder: A folder that `WordMapping.save` wrote; or `mapping/source` or `mapping/target` in a folder that
            `babelray align` or `Alignment.save` wrote.

    Returns:
        The mapping, which can be called with vectors.

    Examples:
        >>> import tempfile
        >>> import babelray as br
        >>> vectors = br.load_vectors({"dog": [1.0, 0.2], "cat": [0.1, 1.0], "bird": [-1.0, 0.0]})
        >>> result = br.align(vectors, vectors, "identical", "procrustes", progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.mapping.save(folder)
        ...     mapping = br.load_mapping(folder)
        >>> bool((mapping(vectors).matrix == result.source.matrix).all())
        True
    """
    from babelray.mapping.fitted import load_mapping

    return WordMapping(load_mapping(Location.parse(folder)))


@dataclass(frozen=True)
class Alignment(Tabular):
    """Two vocabularies in one space, and the mapping of each."""

    source: WordVectors
    """The source words, mapped."""
    target: WordVectors
    """The target words; some methods map them too."""
    mapping: WordMapping
    """The mapping of the source language, for new words."""
    target_mapping: WordMapping
    """The mapping of the target language."""
    method: MappingMethod
    """The method with all its settings."""
    pairs: int | None
    """Entries of the dictionary that were used; None without a dictionary."""
    coverage: Coverage | None = None
    """How many entries of the dictionary are usable, and whether reading it otherwise would give more."""
    health: Health | None = None
    """Of a mapping without a dictionary: whether it has collapsed."""

    def scores(self) -> dict[str, Any]:
        """What is known about the mapping without a test dictionary, as JSON values."""
        scores: dict[str, Any] = {"method": self.method.method, "pairs": self.pairs}
        return scores | ({"collapsed": self.health.collapsed, "health": str(self.health)} if self.health else {})

    def table(self) -> Table:
        sides = (("source", self.source), ("target", self.target))
        rows = [(name, len(side), side.dimension) for name, side in sides]
        notes = [str(self.coverage)] if self.coverage else []
        if self.health:
            notes.append(("collapsed: " if self.health.collapsed else "") + str(self.health))
        columns = [Column("side"), Column("words", ",.0f"), Column("dimensions", ",.0f")]
        return Table(f"{self.method.method}: two vocabularies in one space", columns, rows, notes=notes)

    def save(self, path: AnyPath, ending: str = "") -> None:
        """Write a folder: `source` and `target` mapped, both mappings, and `scores.json`.

        Args:
            path: The folder.
            ending: The format of the vectors, such as `.vec` or `.bin.gz`; by default folders of safetensors.
        """
        folder = Location.parse(path)
        if (folder / "scores.json").exists():
            raise DataError(f"{path} holds the result of an earlier run", "Name another folder, or delete it.")
        for name, vectors, mapping in (
            ("source", self.source, self.mapping),
            ("target", self.target, self.target_mapping),
        ):
            mapping.fitted.save(folder / "mapping" / name)  # in place of what an interrupted attempt wrote
            vectors.save(folder / f"{name}{ending}")
        (folder / "scores.json").write_json(self.scores())

    def __repr__(self) -> str:
        collapsed = ", collapsed" if self.health and self.health.collapsed else ""
        return f"Alignment({self.method.method}: {len(self.source):,} and {len(self.target):,} words{collapsed})"


def align(
    source: Any,
    target: Any,
    dictionary: Dictionary | None = None,
    method: str | MappingMethod = "vecmap",
    *,
    lowercase: bool = True,
    seed: int = 1,
    progress: bool = True,
    **settings: Any,
) -> Alignment:
    """Map the words of one language into the space of another.

    Args:
        source: Word vectors, or anything that `load_vectors` reads.
        target: The same of the other language.
        dictionary: Translations: a file with two words per line, pairs of words, a dict, or `"identical"` for words
            that are spelt alike. Without it the mapping is unsupervised, if the method can do that.
        method: The name of a mapping method (`babelray components` lists them), or its config.
        lowercase: Whether words of the dictionary are lower-cased.
        seed: The same seed gives the same result.
        progress: Whether progress is shown, on the standard error stream.
        **settings: Settings of the method, by the names that recipes use: `cutoff=10_000`.

    Returns:
        Both vocabularies in one space, and the mappings.

    Warns:
        UserWarning: The dictionary covers few words or has few entries, reading it otherwise would give more, or an
            unsupervised mapping has collapsed.

    Examples:
        Two languages of the shipped encoder. Eight entries are few, and the words that are tested are those that the
        mapping was fitted on: warnings say so.

        >>> import babelray as br
        >>> encoder = br.load_encoder("babelray-mini")
        >>> de = ["hund", "katze", "wasser", "haus", "baum", "brot", "milch", "sonne"]
        >>> en = ["dog", "cat", "water", "house", "tree", "bread", "milk", "sun"]
        >>> source = br.load_vectors(encoder.encode_words(de, language="de"), de)
        >>> target = br.load_vectors(encoder.encode_words(en, language="en"), en)
        >>> result = br.align(source, target, list(zip(de, en)), method="procrustes", progress=False)
        >>> result
        Alignment(procrustes: 8 and 8 words)
        >>> br.bli(result.source, result.target, list(zip(de, en)))["p1"]
        1.0
    """
    from babelray.mapping.vocabularies import map_vocabularies

    config = configure_method(method, settings, dictionary)
    left, right = load_vectors(source), load_vectors(target)
    coverage = None
    pairs = None
    training_words: frozenset[str] = frozenset()
    if isinstance(dictionary, str) and dictionary == IDENTICAL:
        pairs = identical_words(left.position, right.position)
    elif dictionary is not None:
        usable = read_usable(dictionary, left.position, right.position, lowercase)
        pairs, coverage = usable.pairs, usable.coverage
        training_words = frozenset(word for word, _ in pairs if word in left)
        for warning in [*usable.skipped.summaries, *coverage.warnings]:
            warnings.warn(f"dictionary: {warning}", stacklevel=2)
    with report_progress(config.method, progress) as notify:
        mapped = map_vocabularies(left, right, pairs, config, seed, notify)
    if few := describe_few_pairs(mapped.pairs, left.dimension, config):
        warnings.warn(f"dictionary: {few}", stacklevel=2)
    if mapped.health and mapped.health.collapsed:
        from babelray.mapping.collapse import ADVICE

        warnings.warn(f"the mapping has collapsed: {mapped.health}. {ADVICE}", stacklevel=2)
    own, other = map(WordMapping, mapped.mappings)
    own_vectors = replace(mapped.source, training_words=training_words)
    return Alignment(own_vectors, mapped.target, own, other, config, mapped.pairs, coverage, mapped.health)


def describe_few_pairs(pairs: int | None, dimension: int, method: MappingMethod) -> str:
    """A warning if there are few entries, which a mapping learns by heart: it has about as many parameters for each
    as the vectors have values.
    """
    if pairs is None or method.unsupervised or pairs >= 2 * dimension:
        return ""
    return f"{pairs:,} entries are few for vectors of {dimension} dimensions: other words may not be translated"


def describe_overlap(training_words: Collection[str], test_pairs: Sequence[tuple[str, str]]) -> str:
    """A warning if tested words were trained on: they are easier to translate than others."""
    tested = {word for word, _ in test_pairs}
    seen = len(tested.intersection(training_words))
    return f"{seen:,} of its {len(tested):,} source words are in the training dictionary too" if seen else ""


def configure_method(
    method: str | MappingMethod,
    settings: Values[str, Any],
    dictionary: Dictionary | None,
    overrides: Sequence[str] = (),
) -> MappingMethod:
    """A mapping method for two vocabularies, whose defaults may depend on whether people made the dictionary."""
    from babelray.mapping.method import MAPPING_METHODS

    if not isinstance(method, str) or method not in MAPPING_METHODS:
        return configure_component(MAPPING_METHODS, method, settings, overrides)
    people_made = dictionary is not None and not (isinstance(dictionary, str) and dictionary == IDENTICAL)
    defaults = MAPPING_METHODS.find(method).two_file_defaults(has_dictionary=people_made)
    return configure_component(MAPPING_METHODS, method, defaults | {**settings}, overrides)


class BliScores(dict[str, Any], Tabular):
    """Scores of word translation: a dict in code, a table in a notebook.

    `p1`, `p5`, `p10` and `mrr` are by CSLS; `nn` holds the same by plain nearest neighbours, `isf` by the inverted
    softmax, if it was asked for. `words` is the number of source words that were tested, `coverage` their share of the
    dictionary's source words, `chance` the P@1 of guessing.
    """

    def table(self) -> Table:
        from babelray.metrics.bli import RANKS
        from babelray.metrics.format import format_chance
        from babelray.metrics.intervals import LEVEL, format_interval, probability_of_guessing, share_interval

        names = {**{f"p{rank}": f"P@{rank}" for rank in RANKS}, "mrr": "MRR"}
        methods = {"nearest neighbour": self["nn"], "inverted softmax": self.get("isf"), "CSLS": self}
        rows = [
            (name, *(scores[key] for key in names), format_interval(share_interval(scores["p1"], self["words"]), "%"))
            for name, scores in methods.items()
            if scores
        ]
        title = f"{self['words']:,} words tested, {self['coverage']:.1%} of the test dictionary"
        columns = [Column("retrieval"), *(Column(name, "%") for name in names.values()), Column(INTERVAL)]
        notes = [f"P@1 of guessing: {format_chance(self['chance'], '%')} %"]
        if self["words"] and probability_of_guessing(self["p1"], self["words"], self["chance"]) > (1 - LEVEL) / 2:
            notes.append("P@1 is not better than guessing: are both vocabularies in one space?")
        return Table(title, columns, rows, notes=notes)


def bli(
    source: Any,
    target: Any,
    dictionary: Dictionary,
    *,
    csls: int = 10,
    inverted_softmax: float = 0.0,
    lowercase: bool = True,
) -> BliScores:
    """Score word translation between two vocabularies in one space (bilingual lexicon induction).

    Args:
        source: Vectors of the words to translate, or anything that `load_vectors` reads.
        target: Vectors of the candidate translations.
        dictionary: The test dictionary: a file with two words per line, pairs of words, or a dict. It should share no
            word with the one that a mapping was fitted on.
        csls: The number of neighbours that CSLS takes the density of.
        inverted_softmax: Score by the inverted softmax with this inverse temperature, too; 0 for not.
        lowercase: Whether words of the dictionary are lower-cased.

    Returns:
        P@1, P@5, P@10 and MRR by CSLS and by nearest neighbours, between 0 and 1, and what was tested.

    Warns:
        UserWarning: The dictionary covers few words, reading it otherwise would give more entries, or the mapping was
            fitted on some of its source words (known of `Alignment.source`, not of vectors that were saved).

    Examples:
        >>> import numpy as np
        >>> import babelray as br
        >>> de = br.load_vectors(np.eye(3), ["hund", "katze", "haus"])
        >>> en = br.load_vectors(np.eye(3)[[1, 0, 2]], ["cat", "dog", "house"])
        >>> scores = br.bli(de, en, [("hund", "dog"), ("katze", "cat"), ("haus", "cat")])
        >>> round(scores["nn"]["p1"], 3), scores["words"]
        (0.667, 3)
    """
    from babelray.metrics.bli import bli

    left, right = load_vectors(source), load_vectors(target)
    usable = read_usable(dictionary, left.position, right.position, lowercase)
    for warning in [*usable.skipped.summaries, *usable.coverage.warnings]:
        warnings.warn(f"test dictionary: {warning}", stacklevel=2)
    if overlap := describe_overlap(left.training_words, usable.pairs):
        warnings.warn(f"test dictionary: {overlap}", stacklevel=2)
    return BliScores(bli(left, right, usable.pairs, csls, inverted_softmax))
