"""`python -m babelray` is the `babelray` command."""

from babelray.commands.app import main

if __name__ == "__main__":
    main()
