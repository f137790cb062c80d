"""What may be wrong around a timeline: `examine` without Spark, `examine_session` with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyspark

from lakestep import _build, _errors, _session
from lakestep._entries import Binding, CommitEntry, Status
from lakestep._findings import Finding, of_error
from lakestep._listings import age_of, now_ms
from lakestep._live_files import LiveFiles
from lakestep._published import TableLog, log_of, read_log
from lakestep._snapshots import snapshots
from lakestep._storage import Place
from lakestep._timeline import Timeline, transactions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestep._storage import Stores

# How many entries count as recent.
_RECENT = 100
_MINUTE_S, _DAY_S = 60, 86400
# A client deletes what it has staged within seconds.
_LEFT_OVER = timedelta(hours=1)
_STAGED = re.compile(r"t[0-9a-f]{32}")
_RECOVER = "If its client has died: lakestep recover."


def examine(root: str, stores: Stores) -> Iterator[Finding]:
    """Yield what is found about this package and the timeline of a root."""
    yield from _package()
    try:
        timeline = Timeline(root, stores)
        yield from _timeline(timeline)
    except _errors.LakestepError as error:
        yield of_error(root, error)


def _package() -> Iterator[Finding]:
    what = f"lakestep {_build.version()}"
    try:
        path = _build.jar_path()
        jar = _build.jar_properties(path)
        if jar["version"] != _build.version():
            raise _errors.error(
                "LAKESTEP_VERSION_MISMATCH", jar=jar["version"], wheel=_build.version()
            )
    except _errors.LakestepError as error:
        yield of_error(what, error)
        return
    others = sorted(_build.jars())
    text = f"PySpark {pyspark.__version__} fits: the JAR is for Spark {jar['spark']} and Delta"
    yield Finding("ok", what, f"{text} {jar['delta']}. JARs for: {', '.join(others) or 'it'}.")


def _timeline(timeline: Timeline) -> Iterator[Finding]:
    newest = timeline.newest()
    about = f"Timeline {timeline.id}, format {timeline.format.format}"
    features = ", ".join(timeline.format.required_features) or "none"
    text = f"{about}, required features: {features}; {newest} entries."
    yield Finding("ok", str(timeline.root), text)
    recent: list[Status] = []
    first = max(newest - _RECENT + 1, 1)
    try:
        recent.extend(timeline.statuses(first, newest))
        unfinished = timeline.unfinished(newest)
    except _errors.LakestepError as error:
        yield of_error("entries", error)
        unfinished = [status for status in recent if not status.is_finished]
    else:
        yield Finding("ok", "entries", f"Entries {first} to {newest} are a chain of hashes.")
    yield from _in_flight(unfinished)
    try:
        yield from _open(timeline)
    except _errors.LakestepError as error:
        yield of_error("transactions", error)
    yield from _Tables(timeline, recent, unfinished).findings()
    try:
        yield from _snapshots_held(timeline)
    except _errors.LakestepError as error:
        yield of_error("snapshots", error)


def _in_flight(unfinished: list[Status]) -> Iterator[Finding]:
    now = now_ms()
    for status in unfinished:
        age = max(now - status.entry.time_ms, 0) // 1000
        text = f"It is in flight for {age_of(age)}."
        what = f"entry {status.entry.number}"
        if age < _MINUTE_S:
            yield Finding("note", what, text)
        else:
            yield Finding("warning", what, text, _RECOVER)
    if not unfinished:
        yield Finding("ok", "in flight", "No entry is unfinished.")


def _open(timeline: Timeline) -> Iterator[Finding]:
    now = now_ms()
    found = timeline.open_transactions()
    aged = [(one, max(now - one.requested_at_ms, 0) // 1000) for one in found]
    old = [(one, age) for one, age in aged if age > _DAY_S]
    for one, age in old:
        text = f"It is open for {age_of(age)}; application {one.application} of {one.user}."
        step = f"If it is dead: VACUUM TRANSACTIONS RETAIN n HOURS, n below {age // 3600}."
        yield Finding("warning", one.id, text, step)
    if not old:
        text = f"Open transactions: {len(found)}, none for more than a day."
        yield Finding("ok", "open", text)


def _snapshots_held(timeline: Timeline) -> Iterator[Finding]:
    """Yield what snapshots need and somebody took; expired ones need nothing."""
    now, live = now_ms(), LiveFiles(timeline)
    found = [s for s in snapshots(timeline) if (s.retain_until_ms or now + 1) > now]
    is_well = True
    for snapshot in found:
        for finding in live.of_snapshot(snapshot):
            yield finding
            is_well = False
    if is_well and found:
        text = (
            f"Snapshots and holds: {len(found)}. All {live.files} files that they need are there."
        )
        yield Finding("ok", "snapshots", text)


class _Tables:
    """The tables of recent entries, where they lie now."""

    def __init__(self, timeline: Timeline, recent: list[Status], unfinished: list[Status]) -> None:
        self._timeline = timeline
        entries = [s.entry for s in (*recent, *unfinished) if isinstance(s.entry, CommitEntry)]
        self._paths = sorted({table.path for entry in entries for table in entry.tables})
        self._busy = {id for status in unfinished for id in transactions_of(status.entry)}

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with them."""
        logs = list(self._timeline.stores.each(self._log, self._paths))
        is_well = True
        for path, log in zip(self._paths, logs, strict=True):
            try:
                found = self._one(path, log) if isinstance(log, TableLog) else of_error(path, log)
            except _errors.LakestepError as error:
                found = of_error(path, error)
            if found is not None:
                yield found
                is_well = False
        yield from self._left_over()
        if is_well:
            count = len(self._paths)
            text = f"Tables of recent entries: {count}. Those that are there belong here."
            yield Finding("ok", "tables", text)

    def _log(self, path: str) -> TableLog | _errors.LakestepError:
        try:
            return read_log(self._timeline, path)
        except _errors.LakestepError as error:
            return error

    def _one(self, path: str, log: TableLog) -> Finding | None:
        if log.binding is None:
            return None
        if log.binding.timeline != self._timeline.id:
            return of_error(
                path,
                _errors.error(
                    "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE",
                    table=path,
                    timeline=log.binding.timeline,
                    ours=self._timeline.id,
                ),
            )
        if Place.of(log.binding.path) != Place.of(path) and self._is_copy(path, log.binding):
            original = log.binding.path
            return of_error(
                path, _errors.error("LAKESTEP_TABLE_IS_A_COPY", table=path, original=original)
            )
        return None

    def _is_copy(self, path: str, binding: Binding) -> bool:
        """Whether the original is there, and its listings do not enclose that of this one."""
        before = read_log(self._timeline, binding.path)
        if before.binding is None or before.binding.log != binding.log:
            return False
        here = read_log(self._timeline, path)
        after = read_log(self._timeline, binding.path)
        return not before.versions <= here.versions <= after.versions

    def _left_over(self) -> Iterator[Finding]:
        """Yield the tables with staged commits of transactions that have ended."""
        staged = [
            (path, folder)
            for path, folders in zip(
                self._paths, self._timeline.stores.each(self._staged, self._paths), strict=True
            )
            for folder in folders
        ]
        try:
            open_ones = {one.id for one in self._timeline.requested()} if staged else set()
        except _errors.LakestepError as error:
            yield of_error(str(self._timeline.root), error)
            return
        left: dict[str, int] = {}
        for path, transaction in staged:
            if transaction not in self._busy | open_ones:
                left[path] = left.get(path, 0) + 1
        for path, count in left.items():
            text = f"Staged commits of transactions that have ended are left: {count}."
            yield Finding("warning", path, text, "VACUUM TRANSACTIONS removes them.")

    def _staged(self, path: str) -> list[str]:
        """Return the transactions whose staged commits are old; who cannot look has said so."""
        try:
            return self._old_staged(path)
        except _errors.LakestepError:
            return []

    def _old_staged(self, path: str) -> list[str]:
        own, stores = log_of(path) / "_lakestep", self._timeline.stores
        before = datetime.now(timezone.utc) - _LEFT_OVER
        found = []
        for folder in stores.list(own):
            if not folder.is_file and _STAGED.fullmatch(folder.name):
                times = [file.modified for file in stores.list(own / folder.name) if file.modified]
                if times and max(times) < before:
                    found.append(folder.name)
        return found


def examine_session(spark: SparkSession, root: str, stores: Stores) -> Iterator[Finding]:
    """Yield what is found about a session: its settings, and whether its store can be written.

    That is tried by BEGIN and ROLLBACK, which leave nothing. It is not tried while an entry is in
    flight, as BEGIN would finish that.
    """
    what = "session"
    try:
        _session.meet(spark)
        spark.sql("SHOW TRANSACTIONS").collect()
        yield Finding("ok", what, "It runs this version, and its parser is Lakestep's.")
        key = "spark.sql.catalog.spark_catalog"
        found = spark.conf.get(key, "none")
        if found != _session.CATALOG:
            raise _errors.error("LAKESTEP_CATALOG_NOT_SET", key=key, found=str(found))
        yield Finding("ok", what, f"{key} is Lakestep's.")
        warehouse = spark.conf.get("spark.sql.warehouse.dir", "")
        of_session = str(spark.conf.get("spark.lakestep.root", None) or f"{warehouse}/_lakestep")
        if Place.named(of_session) != Place.named(root):
            text = f"Its root is {of_session}, and not {root}."
            step = "Set spark.lakestep.root, or name the other root."
            yield Finding("problem", what, text, step)
            return
        yield Finding("ok", what, f"Its root is {of_session}.")
        yield from _probe(spark, Timeline(root, stores))
    except _errors.LakestepError as error:
        yield of_error(what, error)


def _probe(spark: SparkSession, timeline: Timeline) -> Iterator[Finding]:
    if unfinished := timeline.unfinished(timeline.newest()):
        numbers = ", ".join(str(status.entry.number) for status in unfinished)
        text = f"Not tried whether the root can be written: BEGIN would finish entry {numbers}."
        yield Finding("note", "store", text, "lakestep recover, then again.")
        return
    spark.sql("BEGIN").collect()
    spark.sql("ROLLBACK").collect()
    text = "The root can be written, and files are put only if absent (tried by BEGIN, ROLLBACK)."
    yield Finding("ok", "store", text)
