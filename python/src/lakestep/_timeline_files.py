"""Reading the files of a timeline as `scala/PROTOCOL.md`, section 1, describes them.

Unknown fields are ignored. A file that is not as described is refused by its name:
``LAKESTEP_TIMELINE_CORRUPT``; one that needs more than is known here:
``LAKESTEP_TIMELINE_FEATURE_UNKNOWN``.
"""

from __future__ import annotations

import re

from blake3 import blake3

from lakestep._entries import (
    AbortEntry,
    Aborting,
    Assertion,
    BatchKey,
    Binding,
    Checkpoint,
    CommitEntry,
    Completed,
    Conflict,
    Entry,
    EntryRead,
    EntryTable,
    FileSums,
    Format,
    NameChange,
    Outcome,
    Purge,
    Requested,
    RolledBack,
    Settled,
    Undoing,
)
from lakestep._fields import Fields, corrupt

FORMAT = 1
_FEATURES_OF_ENTRIES = {"reserve", "names", "purges", "newTables", "parts", "batches"}
_FEATURES_OF_CHECKPOINTS = {"names", "batches"}

_REQUIRED = "requiredFeatures"
# The last field, and the hash of what stands before it.
_SUM = re.compile(rb',"sum":"([0-9a-f]{64})"\}\s*$')


def hash_of(content: bytes) -> str:
    """Return the hash by which files name one another."""
    return blake3(content).hexdigest()


def format_of(file: str, content: bytes) -> Format:
    """Read ``format.json``."""
    f = Fields.of(file, content)
    features = f.texts(_REQUIRED)
    f.require(features, ())
    found = f.number("format")
    if found > FORMAT:
        raise f.unknown_features(f"format {found}")
    return Format(f.text("timeline"), found, features)


def entry_of(file: str, content: bytes, number: int) -> Entry:
    """Read the file of entry `number`."""
    f = Fields.of(file, content)
    f.require(f.opt_texts(_REQUIRED), _FEATURES_OF_ENTRIES)
    kind, found = f.text("kind"), f.number("number")
    if kind not in ("commit", "abort"):
        raise corrupt(file, f"its kind is {kind}")
    if found != number:
        raise corrupt(file, f"it says it is entry {found}")
    head = (number, f.text("previous"), f.number("timeMs"))
    if kind == "abort":
        return AbortEntry(*head, f.texts("transactions"), f.text("reason"))
    f.number("rules")
    return CommitEntry(
        *head,
        _requested(f.child("transaction")),
        tuple(map(_table, f.children("tables"))),
        tuple(map(_read, f.children("reads"))),
        tuple(map(_name, f.opt_children("names"))),
        tuple(Purge(_key(p), p.text("path")) for p in f.opt_children("purges")),
        tuple(
            BatchKey(b.text("query"), b.opt_number("batch"), b.opt_text("stream"))
            for b in f.opt_children("batches")
        ),
        tuple(Assertion(a.text("name"), a.flag("passed")) for a in f.opt_children("assertions")),
        tuple(
            Undoing(u.opt_text("transaction"), u.opt_text("restored"), u.opt_text("to"))
            for u in f.opt_children("undoes")
        ),
    )


def outcome_of(file: str, content: bytes, number: int) -> Outcome:
    """Read the outcome of entry `number`."""
    f = Fields.of(file, content)
    head, outcome = _ended(f, number), f.text("outcome")
    if outcome == "completed":
        return Completed(*head, f.number_lists("slots"), f.opt_texts("commitHashes"))
    if outcome == "aborting":
        return Aborting(*head, _conflict(f.child("conflict")))
    raise corrupt(file, f"its outcome is {outcome}")


def rolled_back_of(file: str, content: bytes, number: int) -> RolledBack:
    """Read how the rollback of entry `number` ended."""
    f = Fields.of(file, content)
    head = _ended(f, number)
    if f.text("outcome") != "rolled_back":
        raise corrupt(file, "it is no rolled_back file")
    tables = f.children("tables")
    settled = (Settled(t.text("how"), t.opt_number("version"), t.texts("residue")) for t in tables)
    return RolledBack(*head, tuple(settled))


def applied_of(file: str, content: bytes, number: int) -> str:
    """Read that the names of entry `number` are made; return the hash of the entry."""
    return _ended(Fields.of(file, content), number)[1]


def requested_of(file: str, content: bytes) -> Requested:
    """Read REQUESTED."""
    return _requested(Fields.of(file, content))


def checkpoint_of(file: str, content: bytes, number: int) -> Checkpoint:
    """Read the checkpoint up to entry `number`."""
    f = summed(file, content)
    f.require(f.texts(_REQUIRED), _FEATURES_OF_CHECKPOINTS)
    if f.number("number") != number:
        raise corrupt(file, f"it says it is checkpoint {f.number('number')}")
    aborted = {a.text("transaction"): a.number("entry") for a in f.children("aborted")}
    return Checkpoint(number, f.text("hash"), aborted)


def summed(file: str, content: bytes) -> Fields:
    """Read a file that holds the hash of its content."""
    f = Fields.of(file, content)
    end = _SUM.search(content)
    if end is None or hash_of(content[: end.start()] + b"}") != end[1].decode():
        raise corrupt(file, "the hash that it holds is not that of its content")
    return f


def binding_of(file: str, content: bytes) -> Binding:
    """Read the binding of a table."""
    f = Fields.of(file, content)
    return Binding(f.text("timeline"), f.text("log"), f.text("path"))


def _ended(f: Fields, number: int) -> tuple[int, str, int]:
    if f.number("number") != number:
        raise corrupt(f.file, f"it says it is of entry {f.number('number')}")
    return number, f.text("entryHash"), f.number("timeMs")


def _requested(f: Fields) -> Requested:
    tags = f.opt_child("tags")
    return Requested(
        f.text("id"),
        f.opt_text("name"),
        f.text("user"),
        f.text("application"),
        f.text("isolation"),
        f.number("snapshot"),
        f.number("requestedAtMs"),
        f.opt_text("comment"),
        tags.all_texts() if tags else {},
    )


def _table(f: Fields) -> EntryTable:
    for name in ("conflictCapable", "inCommitTimestamps"):
        f.flag(name)
    f.text("actionsHash")
    return EntryTable(
        f.text("log"),
        f.text("tableId"),
        f.text("path"),
        f.text("name"),
        f.number("pin"),
        f.number("base"),
        f.number("parts"),
        f.opt_child("reserve") is not None,
        bool(f.opt_flag("closed")),
        _sums(f.child("added")),
        _sums(f.child("removed")),
        f.opt_texts("operations"),
    )


def _sums(f: Fields) -> FileSums:
    return FileSums(f.number("files"), f.number("rows"), f.number("sizeBytes"))


def _read(f: Fields) -> EntryRead:
    f.child("reads")
    return EntryRead(
        f.text("log"), f.text("path"), f.text("name"), f.number("pin"), f.number("validatedTo")
    )


def _name(f: Fields) -> NameChange:
    before, after = f.opt_child("before"), f.opt_child("after")
    of = after or before
    verb = "ALTER" if before and after else "CREATE" if after else "DROP"
    told = f"{verb} {of.text('kind').upper()}" if of else "NONE"
    return NameChange(told, _key(f), _table_of(before), _table_of(after))


def _table_of(named: Fields | None) -> str | None:
    """Return the path of the table that a name stands for, if it stands for one."""
    return named.opt_text("path") if named and named.text("kind") == "table" else None


def _key(f: Fields) -> str:
    f.text("metastore")
    parts = (f.text("schema"), f.opt_text("name"))
    return ".".join(f"`{part}`" for part in parts if part is not None)


def _conflict(f: Fields) -> Conflict:
    return Conflict(
        f.text("rule"),
        f.text("table"),
        f.text("path"),
        f.opt_number("version"),
        f.opt_text("operation"),
        f.opt_text("user"),
        f.opt_number("timeMs"),
        f.texts("files"),
        f.opt_text("otherTransaction"),
    )
