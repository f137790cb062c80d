# Texts that stay Spark's or Delta's, one a paragraph.
BEGIN END

BEGIN SELECT 1; END

BEGIN SELECT 1; SELECT 2; END;

BEGIN NOT ATOMIC SELECT 1; END

BEGIN
  DECLARE x INT DEFAULT 3;
  SET x = x + 1;
  IF x > 3 THEN SELECT 'a;b'; ELSE SELECT 2; END IF;
END

BEGIN outerLabel: BEGIN SELECT 1; END outerLabel; END

BEGIN WHILE 1 = 0 DO SELECT 1; END WHILE; END

BEGIN INSERT INTO t VALUES (1); END

SELECT 1

SELECT 'BEGIN; SELECT 1; COMMIT'

SELECT commit FROM begin WHERE rollback = 'x'

SELECT 1 -- COMMIT

SHOW TABLES

SHOW TBLPROPERTIES t

INSERT INTO transactions VALUES (1)

CREATE TABLE recover (start INT) USING delta

OPTIMIZE t ZORDER BY (a)

VACUUM t RETAIN 168 HOURS

DESCRIBE HISTORY delta.`/a/b`

SET spark.sql.shuffle.partitions = 2

EXPLAIN SELECT 1

SET transaction = 1

SET transaction.isolation = serializable

SELECT read, only, level, snapshot FROM isolation, write

SET

DESCRIBE transaction

DESC transaction id

EXPLAIN SELECT conflict FROM t

VACUUM transactions RETAIN 5 HOURS DRY RUN

VACUUM spark_catalog.default.transactions

SELECT savepoint, release, to FROM t

CREATE TABLE snapshot (days INT) USING delta

DROP TABLE IF EXISTS snapshots

SHOW TABLES IN snapshot

SELECT days, drop, create, exists FROM snapshots

VACUUM snapshot RETAIN 0 HOURS

RESTORE t TO VERSION AS OF 3

RESTORE TABLE database TO VERSION AS OF 3

RESTORE `database` TO VERSION AS OF 3

RESTORE schema TO VERSION AS OF 3

RESTORE tables TO TIMESTAMP AS OF '2026-01-31'

RESTORE snapshot TO VERSION AS OF 3

RESTORE delta.`/lake/t` TO VERSION AS OF 3

SELECT revert, restore, before, keep, dry, run FROM database

SELECT verify FROM verify.database
