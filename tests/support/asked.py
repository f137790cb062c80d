"""What SQL says of a timeline, and whether a command says the same."""

from datetime import datetime

# Runs in drivers.


def told(spark, statement):
    """Return the rows of a statement, with times in milliseconds."""
    return [
        {name: _plain(value) for name, value in row.asDict().items()}
        for row in spark.sql(statement).collect()
    ]


def _plain(value):
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


# Of commands.


def with_times(row, of):
    """The row with the columns of another one, its times in milliseconds as there."""
    return {name: ms(row[name]) if name.endswith("_at") else row[name] for name in of}


def ms(text):
    if text is None:
        return None
    assert text.endswith("Z")
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def agrees(rows, expected):
    assert expected
    assert [with_times(row, of) for row, of in zip(rows, expected, strict=True)] == expected
