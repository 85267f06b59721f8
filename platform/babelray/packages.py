"""Packages that the light installation leaves out: whoever maps word vectors needs no cluster, tracker or bucket."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from babelray.errors import BabelrayError

LEFT_OUT = {
    "ray": "ray[data,default,train,tune]",
    "deepspeed": "deepspeed",
    "mlflow": "mlflow",
    "boto3": "boto3",
    "botocore": "boto3",
    "optuna": "optuna",
    "matplotlib": "matplotlib",
    "sentencepiece": "sentencepiece",
}
"""Packages that are not in `requirements-core.txt`, by the module that is imported, as pip names them."""


class MissingPackageError(BabelrayError):
    """A package is needed that is not installed."""


@contextlib.contextmanager
def explain_missing(purpose: str) -> Iterator[None]:
    """Turn the import error of a package that the light installation leaves out into an error with a remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in LEFT_OUT:
            raise
        remedy = f"Install it: pip install '{LEFT_OUT[name]}'; or all that Babelray needs: pip install babelray."
        raise MissingPackageError(f"{purpose} needs the package {name}, which is not installed", remedy) from error
