"""Align the languages inside an encoder with a recipe, from Python: text in, aligned encoder and scores out.

    python examples/align_encoder.py      # under 3 minutes on two cores

This is the shipped recipe `quickstart` with three languages and 20 steps instead of ten and 100. `babelray init` writes
the recipe to a file to edit. Kill it at any moment: the same command resumes, to the same bits.
"""

from __future__ import annotations

import torch

import babelray as br

SMALL = {"languages": ["en", "de", "sw"], "pretrain.steps": 20, "pretrain.workers": 1}


def main() -> None:
    result = br.run("quickstart", SMALL)
    print(result)  # the tables of scores before and after, and where the report is

    encoder = result.load_encoder()
    vectors = encoder.encode(["A dog barks.", "Ein Hund bellt.", "The train is late."])
    # The encoder is small, and 20 steps are few: the translation need not be the more similar sentence.
    dog, train = torch.cosine_similarity(vectors[[0, 2]], vectors[1]).tolist()
    print(f"\n'Ein Hund bellt.' is similar to 'A dog barks.' by {dog:.2f}, to 'The train is late.' by {train:.2f}.")

    swahili, english = (result.load_vectors(language) for language in ("sw", "en"))
    print("Static vectors in one space, maji (water):", swahili.neighbours("maji", 3, target=english))
    print(f"\nThe encoder is in {result.encoder_folder}; `AutoModel` and `SentenceTransformer` load it.")


if __name__ == "__main__":
    main()
