"""A database that an older JAR wrote, in every state: `atomicity/compat/make.py`."""

import fcntl
import json
import shutil
import tarfile
from contextlib import contextmanager
from pathlib import Path

from lake import Lake

ARCHIVE = Path(__file__).parents[1] / "atomicity" / "compat" / "bc86795.tar.gz"
# Paths inside are absolute.
PLACE = Path("/tmp/lakestep-compat")


def unpack(folder):
    """Unpack it somewhere else, where its timeline can be read, and its tables are not found."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return Lake(Path(folder) / "lake")


@contextmanager
def old_lake():
    """The database at the place where it was written, and what it holds; others wait for it."""
    with Path(f"{PLACE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        lake = unpack(PLACE)
        yield lake, json.loads((lake.folder / "facts.json").read_text())
        shutil.rmtree(PLACE)


def file(lake, number, kind=""):
    return lake.root / "timeline" / f"{number:020}{kind}.json"


def edit(path, **fields):
    """Write other values for some fields; None takes a field away."""
    changed = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({k: v for k, v in changed.items() if v is not None}))
