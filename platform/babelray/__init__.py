"""Babelray aligns the languages inside a multilingual encoder, and proves that it did."""

__version__ = "0.1.0"
