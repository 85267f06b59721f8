"""The names of the mapping methods: for configs, and for the command, which must start without loading any."""

from typing import Literal

Method = Literal[
    "procrustes",
    "least-squares",
    "rcsls",
    "vecmap",
    "muse",
    "gbdd",
    "fcnn",
    "normalisation",
    "real-nvp",
    "gan-real-nvp",
]
Towards = Literal["zero", "identity"]
Normalise = Literal["unit", "centred", "none"]
"""What happens to vectors first: length 1, centred, length 1 again; only centred; nothing."""
Similarity = Literal["cosine", "distance"]
"""What near means: a large cosine, or where lengths count a small distance."""
Select = Literal["semantic", "structural", "validation", "last"]
"""Which epoch of a training is kept."""
