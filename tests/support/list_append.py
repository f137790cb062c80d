"""The lists of test_histories.py: what its clients do inside their drivers.

A key is a table and a number. In `rows` a list is the rows of its number, and an append is an
INSERT; in `arrays` (a file for each list) and `vectors` (one file for all, deletion vectors) it is
an array, and an append is an UPDATE.
"""

from itertools import groupby

KEYS = 5
READ, APPEND = "r", "append"
INSERTED = "rows"
TABLES = (INSERTED, "arrays", "vectors")


def create(spark, tables):
    for name, path in tables.items():
        v = "INT" if name == INSERTED else "ARRAY<INT>"
        vectors = str(name == "vectors").lower()
        spark.sql(
            f"CREATE TABLE delta.`{path}` (k INT, v {v}) USING delta"
            f" TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
        )
        if name != INSERTED:
            files = 1 if name == "vectors" else KEYS
            lists = f"SELECT CAST(id AS INT), array() FROM range(0, {KEYS}, 1, {files})"
            spark.sql(f"INSERT INTO delta.`{path}` {lists}")


def run(spark, tables, begin, ops):
    """Do what a transaction does, reads side by side in one query; return what was read.

    `begin` is its first statement, None for a query outside a transaction. `ops` are of the form
    (READ, table, number, None) and (APPEND, table, number, value).
    """
    answers = []
    try:
        if begin:
            spark.sql(begin)
        for (kind, table), group in groupby(ops, lambda op: (op[0], op[0] == APPEND and op[1])):
            if kind == READ:
                answers += _read(spark, tables, list(group))
            else:
                _append(spark, table, tables[table], [op[2:] for op in group])
        if begin:
            spark.sql("COMMIT")
    except Exception:
        if begin:
            spark.sql("ROLLBACK")
        raise
    return answers


def _read(spark, tables, ops):
    parts = []
    for table in dict.fromkeys(op[1] for op in ops):
        v = "array(v)" if table == INSERTED else "v"
        numbers = ", ".join(str(op[2]) for op in ops if op[1] == table)
        columns = f"'{table}' AS t, k, {v} AS v"
        parts.append(f"SELECT {columns} FROM delta.`{tables[table]}` WHERE k IN ({numbers})")
    rows = spark.sql(" UNION ALL ".join(parts)).collect()
    return [
        [value for row in rows if (row["t"], row["k"]) == (table, number) for value in row["v"]]
        for _, table, number, _ in ops
    ]


def _append(spark, table, path, appends):
    if table == INSERTED:
        rows = ", ".join(f"({number}, {value})" for number, value in appends)
        spark.sql(f"INSERT INTO delta.`{path}` VALUES {rows}")
        return
    new = {number: [v for n, v in appends if n == number] for number, _ in appends}
    cases = " ".join(f"WHEN {k} THEN array({', '.join(map(str, v))})" for k, v in new.items())
    numbers = ", ".join(map(str, new))
    spark.sql(f"UPDATE delta.`{path}` SET v = concat(v, CASE k {cases} END) WHERE k IN ({numbers})")
