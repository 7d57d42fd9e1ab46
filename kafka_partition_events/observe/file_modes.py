"""Whether everybody on the machine can read a file that is to be one user's."""

import stat
from pathlib import Path


def readable_by_all(path: str | Path) -> bool:
    """Tell whether any user may read a file: it, and all directories on the way to it, let others in.

    What is not there nobody reads. Of links that which they lead to counts.
    """
    try:
        real = Path(path).resolve(strict=True)
        return bool(real.stat().st_mode & stat.S_IROTH) and all(
            parent.stat().st_mode & stat.S_IXOTH for parent in real.parents
        )
    except OSError:
        return False
