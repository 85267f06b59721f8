"""The `babelray` command inside this process, for tests that need no process of their own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import traceback
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 140


def call(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call the command; returns its exit code and output as a finished process does."""
    from babelray.commands import app
    from babelray.commands.options import console, errors

    output, problems = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or ROOT),
        mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH), **environment}),
        mock.patch.object(sys, "argv", ["babelray", *arguments]),
        mock.patch.multiple(console, _width=WIDTH),
        mock.patch.multiple(errors, _width=WIDTH),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(problems),
    ):
        code = _exit_code(app.main)
    return subprocess.CompletedProcess(["babelray", *arguments], code, output.getvalue(), problems.getvalue())


def _exit_code(main: object) -> int:
    assert callable(main)
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    return 0
