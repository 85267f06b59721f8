"""Align the languages inside an encoder with a recipe, from Python: text in, aligned encoder and scores out.

    python examples/align_encoder.py      # under 3 minutes on two cores

This is the shipped recipe `quickstart` with three languages and 20 steps instead of ten and 100. `babelray init` writes
the recipe to a file to edit. Kill it at any moment: the same command resumes, to the same bits.
"""

from __future__ import annotations

import babelray as br

SMALL = {"languages": ["en", "de", "sw"], "pretrain.steps": 20, "pretrain.workers": 1}


def main() -> None:
    result = br.run("quickstart", SMALL)
    print(result)  # the tables of scores before and after, and where the report is

    encoder = result.load_encoder()
    vectors = encoder.encode(["A dog barks.", "Ein Hund bellt.", "The train is late."])
    neighbours = br.load_vectors(vectors, ["dog", "Hund", "train"]).neighbours("Hund", 2)
    print("\nThe sentences nearest to 'Ein Hund bellt.':", neighbours)

    swahili, english = (result.load_vectors(language) for language in ("sw", "en"))
    print("Static vectors in one space, maji (water):", swahili.neighbours("maji", 3, target=english))
    print(f"\nThe encoder is in {result.encoder_folder}; `AutoModel` and `SentenceTransformer` load it.")


if __name__ == "__main__":
    main()
