"""Transactions that change rows, add one and take it away again, and how they are replayed."""

NEW = 1000


def change(writer, number):
    """The name of a transaction, from which `replay` tells what it did, and its statements."""
    name = f"w{writer}_{number}"
    new = NEW * (number + 1) + writer
    old = new - NEW
    statements = [
        f"UPDATE {{}} SET v = v + 1 WHERE id = {writer}",
        f"DELETE FROM {{}} WHERE id = {old}"
        if number % 2
        else f"INSERT INTO {{}} VALUES ({new}, 0)",
    ]
    return name, statements


def replay(names, writers):
    """The rows of each table after every number of transactions."""
    rows = dict.fromkeys(range(writers), 0)
    states = [sorted(rows.items())]
    for name in names:
        writer, number = map(int, name[1:].split("_"))
        rows[writer] += 1
        if number % 2:
            del rows[NEW * number + writer]
        else:
            rows[NEW * (number + 1) + writer] = 0
        states.append(sorted(rows.items()))
    return states
