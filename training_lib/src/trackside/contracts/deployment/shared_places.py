"""The other places of a bucket that a job may read: the rest of its own folder, and the folder `shared/`.

The evaluators of a deployment may read the whole bucket of runs, on behalf of every job. A job must not learn from them
about runs that it could not read itself.

| run of the job                       | it may read                                                     |
|--------------------------------------|-----------------------------------------------------------------|
| `s3://bucket/team/...`               | `s3://bucket/team/...`, `s3://bucket/shared/...`                |
| `s3://bucket/run`                    | other runs at the top of the bucket, `s3://bucket/shared/...`   |
| `s3://bucket/<account>/...`, a spoke | `s3://bucket/<account>/...`                                     |

Objects at the top of the bucket, in no folder, are shared too.
"""

from __future__ import annotations

from trackside.contracts.run_layout import TENSORS

SHARED = "shared"
_SCHEME = "s3://"


def may_read(run: str, place: str, *, account: str = "") -> bool:
    """Return True if the job of a run may read another run, or an object in a folder.

    Args:
        run: Location of the job's own run, an s3:// URI.
        place: Location of the other run (or of its tensors), or of the folder with the object.
        account: Account of the job: a run in the folder of that name is a spoke's, and reads nothing outside it.
    """
    own, other = _parts(run), _parts(place.rstrip("/").removesuffix(f"/{TENSORS}"))
    if not own or not other or own[0] != other[0] or {"", ".", ".."} & set(other):
        return False
    if len(own) > 2 and other[1:2] == own[1:2]:
        return True
    is_spoke = bool(account) and own[1:2] == [account]
    if is_spoke:
        return False
    return other[1:2] in ([], [SHARED]) or len(own) == len(other) == 2


def _parts(uri: str) -> list[str]:
    """Return bucket and folders; none of another kind of location."""
    return uri.removeprefix(_SCHEME).rstrip("/").split("/") if uri.startswith(_SCHEME) else []
