"""Map the word vectors of one language into the space of another, and measure word translation before and after.

    python examples/align_words.py                                         # German and English, shipped data, 10 s
    python examples/align_words.py de.vec en.vec de-en.txt de-en.test.txt  # your own vectors and dictionaries

Without arguments the vectors are those that babelray-mini gives to 400 shipped concepts, 320 of which are the training
dictionary. These vectors come from one encoder and are close to each other from the start, and 320 pairs are few: here
mappings lower P@1, or change it by less than its uncertainty. Vectors that were trained apart, such as fastText's, are
at 0 without a mapping.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from typing import Any

import babelray as br

METHODS: dict[str, dict[str, Any]] = {
    "procrustes": {},
    "least-squares": {"ridge": 3.0, "shrink_to": "identity"},
    "vecmap": {"self_learning": False},
}


def shipped_concepts(language: str) -> list[list[str]]:
    """The words for each concept; line n is the same concept in every language."""
    lines = (files("babelray") / f"starter/words/{language}.txt").read_text(encoding="utf-8").splitlines()
    return [[word.strip().lower() for word in line.split("|")] for line in lines]


def shipped_data() -> tuple[br.WordVectors, br.WordVectors, list[tuple[str, str]], list[tuple[str, str]]]:
    """Vectors of German and English words, and dictionaries: every fifth concept is for the test."""
    encoder = br.load_encoder("babelray-mini")
    concepts = {language: shipped_concepts(language) for language in ("de", "en")}
    vectors = []
    for language, own in concepts.items():
        words = list(dict.fromkeys(word for alternatives in own for word in alternatives))
        vectors.append(br.load_vectors(encoder.encode_words(words, language=language), words))
    train: list[tuple[str, str]] = []
    test: list[tuple[str, str]] = []
    for number, (german, english) in enumerate(zip(*concepts.values(), strict=True)):
        pairs = [(source, target) for source in german for target in english]
        (test if number % 5 == 4 else train).extend(pairs)
    known = {source for source, _ in train}
    return vectors[0], vectors[1], train, [pair for pair in test if pair[0] not in known]


def main() -> None:
    source, target, train, test = sys.argv[1:] if len(sys.argv) > 1 else shipped_data()
    source, target = br.load_vectors(source), br.load_vectors(target)
    print(f"{'as they are':<14} P@1 {br.bli(source, target, test)['p1']:6.1%}")
    for method, settings in METHODS.items():
        result = br.align(source, target, train, method, progress=False, **settings)
        scores = br.bli(result.source, result.target, test)
        print(f"{method:<14} P@1 {scores['p1']:6.1%}   {scores['words']} words tested, guessing {scores['chance']:.1%}")
    word = source.words[0]
    print(f"\nThe neighbours of {word!r} in the other language, by {method}:")
    print(result.source.neighbours(word, 5, target=result.target))
    folder = tempfile.mkdtemp(prefix="aligned-", dir=".")
    result.save(folder, ".vec")
    print(f"{folder} has both vocabularies as word2vec text, and mappings that `br.load_mapping` reads.")


if __name__ == "__main__":
    main()
