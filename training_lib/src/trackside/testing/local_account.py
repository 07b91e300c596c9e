"""The former name of `trackside_localaccount`, a wheel of its own.

Offers `LocalAccount` and `Chaos`, and its command, until 0.3. The other modules have the new name only.
"""

from __future__ import annotations

import sys
import warnings

from trackside.extras import install_command

try:
    import trackside_localaccount
except ModuleNotFoundError as error:
    if error.name != "trackside_localaccount":
        raise
    raise ModuleNotFoundError(
        f"The local account is a package of its own: {install_command('localcloud')}",
        name=error.name,
    ) from error

Chaos = trackside_localaccount.Chaos
LocalAccount = trackside_localaccount.LocalAccount

__all__ = ["Chaos", "LocalAccount"]

warnings.warn("trackside.testing.local_account is now trackside_localaccount.", DeprecationWarning, stacklevel=2)

if __name__ == "__main__":
    from trackside_localaccount.__main__ import main

    sys.exit(main())
