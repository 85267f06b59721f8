"""The names of the mapping methods: for configs, and for the command, which must start without loading any."""

from typing import Literal

Method = Literal["procrustes", "least-squares", "rcsls", "vecmap", "muse"]
Towards = Literal["zero", "identity"]
