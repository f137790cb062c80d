"""A table as Delta shows it, in a form that two tables can be compared in.

Random names (of data files, of physical columns) are left out or replaced.
"""

import json
import re
from collections import Counter

from transactions import condition_of


def shown(frame):
    """The rows of a frame as sorted text."""
    return sorted(json.dumps(list(row), default=str, ensure_ascii=False) for row in frame.collect())


def view(session, name):
    """What a session sees of a table: schema, properties, protocol, number of files, rows."""
    detail = session.sql(f"DESCRIBE DETAIL {name}").collect()[0]
    frame = session.sql(f"SELECT * FROM {name}")
    return {
        "schema": json.loads(frame.schema.json()),
        "properties": dict(sorted(detail["properties"].items())),
        "features": sorted(detail["tableFeatures"]),
        "files": detail["numFiles"],
        "rows": shown(frame),
    }


def state(spark, path, since):
    """What Delta itself, in a session without Lakestep, reconstructs from a table's log.

    `since` is the version before the changes that are compared. It bounds the change feed, and
    versions after it count as one: what plain Delta commits one by one is one commit with us.
    """
    jvm = spark._jvm
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    snapshot = log.update(False, none, none)
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    schema = json.loads(metadata["schemaString"])
    properties = dict(sorted(metadata["configuration"].items()))
    logical = _logical_names(schema)
    protocol = json.loads(snapshot.protocol().json())["protocol"]
    found = {
        "checksum": _checksum_holds(jvm, snapshot),
        "table_id": metadata["id"],
        "partitioned_by": metadata["partitionColumns"],
        "schema": json.loads(_renamed(json.dumps(schema), logical)),
        "properties": properties,
        "protocol": {k: sorted(v) if isinstance(v, list) else v for k, v in protocol.items()},
        "domains": sorted(
            _renamed(text, logical) for text in (d.json() for d in _each(snapshot.domainMetadata()))
        ),
        "txns": sorted(
            (txn.appId(), txn.version())
            for txn in _each(snapshot.setTransactions())
            if not txn.appId().startswith("lakestep/")
        ),
        "notes": _notes(spark, path, since),
        "files": sorted(
            _file(json.loads(text), logical, since)
            for text in snapshot.allFiles().toJSON().collect()
        ),
        "rows": shown(spark.sql(f"SELECT * FROM delta.`{path}`")),
    }
    if properties.get("delta.enableRowTracking") == "true":
        found["row_ids"] = shown(
            spark.sql(
                f"SELECT *, _metadata.row_id, least(_metadata.row_commit_version, {since + 1})"
                f" FROM delta.`{path}`"
            )
        )
    if properties.get("delta.enableChangeDataFeed") == "true":
        found["changes"] = sorted(
            change
            for version in range(since + 1, snapshot.version() + 1)
            for change in _changes(spark, path, version)
        )
    return found


def _notes(spark, path, since):
    """What users have said of the versions after one."""
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where(f"version > {since}")
    return sorted({row[0] for row in history.select("userMetadata").collect() if row[0]})


def net(changes):
    """Of each row of a change feed, how often it came less how often it went."""
    counts = Counter()
    for text in changes:
        *row, kind = json.loads(text)
        counts[json.dumps(row)] += 1 if kind in ("insert", "update_postimage") else -1
    return {row: count for row, count in counts.items() if count}


def assert_feed_is_part_of(changes, statements):
    """Net, a transaction's change feed is that of its statements; and it tells nothing twice."""
    assert net(changes) == net(statements)
    assert not Counter(changes) - Counter(statements)


def _changes(spark, path, version):
    """The change feed of a version; nothing of one in which the table had none."""
    feed = f"SELECT * FROM table_changes_by_path('{path}', {version}, {version})"
    try:
        return shown(spark.sql(feed).drop("_commit_version", "_commit_timestamp"))
    except Exception as failure:
        if condition_of(failure) != "DELTA_MISSING_CHANGE_DATA":
            raise
        return []


def _checksum_holds(jvm, snapshot):
    """Whether the version has a checksum and it says what the log says; Delta compares the sums."""
    checksum = snapshot.checksumOpt()
    if not checksum.isDefined() or not snapshot.validateChecksum(jvm.scala.Predef.Map().empty()):
        return False
    listed = checksum.get().allFiles()
    if not listed.isDefined():
        return True
    in_log = map(json.loads, snapshot.allFiles().toJSON().collect())
    in_checksum = (json.loads(f.json())["add"] for f in _each(listed.get()))
    return sorted(map(_without_empty, in_log)) == sorted(map(_without_empty, in_checksum))


def _without_empty(fields):
    return json.dumps({key: value for key, value in fields.items() if value}, sort_keys=True)


def _each(scala_seq):
    iterator = scala_seq.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _logical_names(schema):
    """Physical column names by Delta's column mapping, as far as they are random."""
    names = {}

    def visit(type_, prefix):
        if not isinstance(type_, dict):
            return
        for part in ("elementType", "keyType", "valueType"):
            visit(type_.get(part), prefix)
        for column in type_.get("fields", ()):
            name = f"{prefix}{column['name']}"
            physical = column["metadata"].get("delta.columnMapping.physicalName", "")
            if re.match("col-[0-9a-f]{8}-", physical):
                names[physical] = f"<{name}>"
            visit(column["type"], f"{name}.")

    visit(schema, "")
    return names


def _renamed(text, names):
    for physical, logical in names.items():
        text = text.replace(physical, logical)
    return text


def _file(add, logical, since):
    vector = add.get("deletionVector") or {}
    row_commit_version = add.get("defaultRowCommitVersion")
    text = json.dumps(
        {
            "partition": add["partitionValues"],
            "stats": json.loads(add.get("stats") or "{}"),
            "deleted": vector.get("cardinality"),
            "base_row_id": add.get("baseRowId"),
            "row_commit_version": row_commit_version and min(row_commit_version, since + 1),
            "clustering": add.get("clusteringProvider"),
        },
        ensure_ascii=False,
    )
    # Sorted by the names that do not change.
    return json.dumps(json.loads(_renamed(text, logical)), sort_keys=True, ensure_ascii=False)
