"""What stands on the disk under a table: whether a transaction touched what is not its own."""

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Print:
    """A file as it must stay."""

    size: int
    modified_ns: int
    content: str


def prints(table):
    """Every file under `table` by its relative path; folders are told by a None."""
    found: dict[str, Print | None] = {}
    for path in sorted(Path(table).rglob("*")):
        name = str(path.relative_to(table))
        if path.is_dir():
            found[name] = None
        else:
            status = path.stat()
            content = hashlib.blake2b(path.read_bytes()).hexdigest()
            found[name] = Print(status.st_size, status.st_mtime_ns, content)
    return found


# Names the newest checkpoint; Delta writes it anew with each.
CHECKPOINT_HINT = ("_delta_log/_last_checkpoint", "_delta_log/._last_checkpoint.crc")


def assert_kept(table, before, may_change=CHECKPOINT_HINT):
    """No file that stood there before was changed or removed; for use after a COMMIT."""
    now = prints(table)
    for name, file in before.items():
        assert name in now, f"{name} was removed"
        if not name.startswith("_delta_log/_lakestep") and name not in may_change:
            assert now[name] == file, f"{name} was changed"


def assert_log_untouched(table, before):
    """Not even a hint was, and the log holds nothing new but for what is Lakestep's own."""
    assert_kept(table, before, may_change=())
    new = [
        name
        for name in prints(table)
        if name not in before
        and name.startswith("_delta_log/")
        and not name.startswith("_delta_log/_lakestep")
    ]
    assert new == []


def await_checksum(table, version):
    """What follows a COMMIT is done on a Connect server, too, of which a client is not told."""
    last = time.monotonic() + 30
    while not Path(table, "_delta_log", f"{version:020}.crc").exists():
        assert time.monotonic() < last, f"version {version} of {table} has no checksum"


def staged_commits(table):
    """The names of staged commits, of all transactions."""
    folder = Path(table) / "_delta_log" / "_lakestep"
    return sorted(path.name for path in folder.glob("*/" + "[0-9]" * 20 + ".json"))
