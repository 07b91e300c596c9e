"""`trackside` and `python -m trackside`: the command line, or one sentence on how to get it.

A training container needs no command line, so its libraries are an extra and never meet the container's own.
"""

from __future__ import annotations

import gc
import sys

from trackside.collection_pause import CollectionPause

_EXTRA = ("click", "rich")


def main() -> None:
    """Run the command line. Exit with code 2, and name the packages to install, if its libraries are missing."""
    try:
        with CollectionPause():
            from trackside.cli import main as command_line
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        from trackside.extras import install_command

        sys.stderr.write(f"The trackside command needs {' and '.join(_EXTRA)}: {install_command('cli')}\n")
        sys.exit(2)
    gc.freeze()  # what is imported stays
    command_line()


if __name__ == "__main__":
    main()
