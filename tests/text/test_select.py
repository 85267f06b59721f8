import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from babelray.text.select import select_rows


def by_definition(pieces: list[list[int]], limit: int | None) -> tuple[list[list[int]], int]:
    """Walk through everything in order; remember what was seen; then take the smallest."""
    first: dict[int, tuple[int, int]] = {}
    for number, piece in enumerate(pieces):
        for row, key in enumerate(piece):
            first.setdefault(key, (number, row))
    chosen = sorted(first)[:limit]
    selected: list[list[int]] = [[] for _ in pieces]
    for key in chosen:
        selected[first[key][0]].append(first[key][1])
    return [sorted(rows) for rows in selected], len(first)


KEYS = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1), st.just(2**64 - 1))


@given(
    st.lists(st.lists(KEYS, max_size=12), min_size=1, max_size=5),
    st.one_of(st.none(), st.integers(1, 20)),
    st.integers(1, 30),
    st.integers(1, 5),
)
def test_same_as_the_definition_whatever_the_passes_and_blocks(
    pieces: list[list[int]], limit: int | None, rows_per_pass: int, block: int
) -> None:
    def blocks(piece: list[int]):
        array = np.array(piece, dtype=np.uint64)
        return lambda: (array[i : i + block] for i in range(0, len(array), block))

    rows = sum(map(len, pieces))
    selected, distinct = select_rows([blocks(piece) for piece in pieces], rows, limit, rows_per_pass)
    assert ([rows.tolist() for rows in selected], distinct) == by_definition(pieces, limit)


def test_the_sample_does_not_depend_on_how_the_text_is_cut() -> None:
    keys = np.random.default_rng(0).integers(0, 2**63, 1000).astype(np.uint64)
    chosen = []
    for count in (1, 3, 10):
        pieces = np.array_split(keys, count)
        selected, _ = select_rows([(lambda piece=piece: [piece]) for piece in pieces], 1000, 100)
        chosen.append({int(key) for piece, rows in zip(pieces, selected, strict=True) for key in piece[rows]})
    assert chosen[0] == chosen[1] == chosen[2] and len(chosen[0]) == 100
