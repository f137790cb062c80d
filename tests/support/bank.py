"""The bank of test_bank.py: what its clients do inside their drivers, and how it is replayed.

Each account is in a file of its own. A transfer is one transaction, named after what it moves, so
that the entries of the timeline tell the balances.
"""

ACCOUNTS = 4
OPENING = 1000
ATTEMPTS = 50


def transfer(spark, left, right, source, target, amount):
    """Move money from a left account to a right one; return the number of conflicts met."""
    import lakestep

    for conflicts in range(ATTEMPTS):
        try:
            with lakestep.transaction(spark, name_of(source, target, amount)):
                change(spark, left, source, -amount)
                change(spark, right, target, amount)
        except lakestep.ConflictError:
            continue
        return conflicts
    raise AssertionError(f"{ATTEMPTS} conflicts in a row")


def change(spark, table, account, amount):
    spark.sql(f"UPDATE delta.`{table}` SET v = v + {amount} WHERE id = {account}")


def snapshot(spark, left, right):
    """Read both tables in one transaction."""
    spark.sql("BEGIN")
    tables = [balances(spark, left), balances(spark, right)]
    spark.sql("COMMIT")
    return tables


def query(spark, left, right):
    """Read both tables in one query outside a transaction."""
    sides = (f"SELECT {i} AS side, id, v FROM delta.`{t}`" for i, t in enumerate((left, right)))
    rows = sorted(spark.sql(" UNION ALL ".join(sides)).collect())
    return [[[row["id"], row["v"]] for row in rows if row["side"] == side] for side in (0, 1)]


def balances(spark, table):
    rows = spark.sql(f"SELECT id, v FROM delta.`{table}`").collect()
    return [[row["id"], row["v"]] for row in sorted(rows)]


def name_of(source, target, amount):
    return f"{source} to {target}: {amount}"


def replay(names):
    """Return the balances of both tables after these transfers."""
    left, right = ([OPENING] * ACCOUNTS for _ in range(2))
    for name in names:
        accounts, amount = name.split(": ")
        source, target = accounts.split(" to ")
        left[int(source)] -= int(amount)
        right[int(target)] += int(amount)
    return [[list(pair) for pair in enumerate(side)] for side in (left, right)]
