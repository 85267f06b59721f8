"""Find which words of a sentence translate which words of another, as hard links and as shares.

    python examples/word_alignment.py                # 5 s
    python examples/word_alignment.py xlm-roberta-base 8   # another encoder, and its layer

babelray-mini is small: some links are right and some are not. Middle layers of large encoders align best.
"""

from __future__ import annotations

import sys

import babelray as br

ENGLISH = ["I drink coffee every morning.", "The children play in the garden.", "We need bread and milk."]
GERMAN = ["Ich trinke jeden Morgen Kaffee.", "Die Kinder spielen im Garten.", "Wir brauchen Brot und Milch."]


def main() -> None:
    path, layer = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else ("babelray-mini", -1)
    encoder = br.load_encoder(path, layer=layer)

    for method in ("argmax", "itermax", "match"):  # from the most precise to the most complete
        print(f"\n{method}")
        for result in br.word_align(encoder, GERMAN, ENGLISH, method, level="words", languages=("de", "en")):
            print(f"  {result.to_pharaoh():<28}", "  ".join(f"{source}={target}" for source, target in result.words))

    print("\nBy optimal transport, the loss of the objective `transport`:")
    print(br.soft_align(encoder, GERMAN[0], ENGLISH[0], languages=("de", "en")))


if __name__ == "__main__":
    main()
