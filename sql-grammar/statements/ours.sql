# One statement a paragraph; the line above it says what it must become.
# begin
BEGIN

# begin
begin;

# begin
BEGIN TRANSACTION

# begin
BEGIN WORK;

# begin nightly
BEGIN nightly

# begin nightly load
BEGIN TRANSACTION `nightly load`;

# begin a`b
BEGIN WORK `a``b`

# begin
START TRANSACTION

# begin tx1
/* a comment */ START TRANSACTION tx1 -- and another

# begin repeat
BEGIN repeat

# begin [SERIALIZABLE]
BEGIN ISOLATION LEVEL SERIALIZABLE

# begin nightly [SNAPSHOT, read only]
begin transaction nightly isolation level snapshot, read only;

# begin [SNAPSHOT]
START TRANSACTION ISOLATION LEVEL REPEATABLE READ

# begin [SNAPSHOT, read write]
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE

# begin [read only]
BEGIN READ ONLY

# begin read [read only]
BEGIN read READ ONLY

# begin serializable
BEGIN serializable

# mode twice
BEGIN READ ONLY, READ WRITE

# mode twice
SET TRANSACTION ISOLATION LEVEL SNAPSHOT ISOLATION LEVEL SNAPSHOT

# set [SERIALIZABLE]
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;

# set [read only]
set transaction read only

# block commit 2
BEGIN READ ONLY; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1; COMMIT

# commit
COMMIT

# commit
commit work;

# commit
COMMIT TRANSACTION

# rollback
ROLLBACK

# rollback
ROLLBACK WORK ;;

# show transactions
SHOW TRANSACTIONS

# describe t1
DESCRIBE TRANSACTION 't1'

# describe t1
desc transaction "t1";

# explain conflict
EXPLAIN CONFLICT;

# explain conflict t1
EXPLAIN CONFLICT 't1'

# vacuum 168
VACUUM TRANSACTIONS

# vacuum 0
vacuum transactions retain 0 hours;

# recover
RECOVER;

# block commit 2
BEGIN tx1; INSERT INTO a VALUES (1); UPDATE b SET x = 1; COMMIT

# block rollback 1
BEGIN; DELETE FROM a; ROLLBACK;

# block commit 0
BEGIN; COMMIT

# block commit 3
BEGIN TRANSACTION;
  -- a comment; with a semicolon
  INSERT INTO a VALUES ('it''s; fine', "a ""quoted""; text", r'raw\');
  /* nested /* comment; */ ; */
  UPDATE `odd;name` SET x = 'escaped \'; quote';
  OPTIMIZE a;
COMMIT WORK;

# block commit 1
START TRANSACTION t; SELECT CASE WHEN x THEN 1 ELSE 2 END FROM a; COMMIT

# block commit 2
BEGIN; BEGIN DECLARE n INT DEFAULT 1; IF n > 0 THEN INSERT INTO a VALUES (n); END IF; SELECT CASE WHEN n = 1 THEN 2 END; END; SELECT 1; COMMIT

# unfinished
BEGIN; INSERT INTO a VALUES (1)

# unfinished
BEGIN tx1; INSERT INTO a VALUES (1); SELECT 1;

# savepoint a
SAVEPOINT a

# savepoint a b
savepoint `a b`;

# savepoint it`s 😀
SAVEPOINT `it``s 😀`

# rollback to a
ROLLBACK TO a

# rollback to a
ROLLBACK WORK TO SAVEPOINT a;

# release a
RELEASE a

# release a
RELEASE SAVEPOINT a

# block commit 3
BEGIN; SAVEPOINT a; ROLLBACK TO SAVEPOINT a; SELECT 1; COMMIT

# begin savepoint
BEGIN savepoint

# atomic block
BEGIN ATOMIC INSERT INTO t VALUES (1); END

# atomic block
begin atomic
  DECLARE x INT DEFAULT 1;
  SELECT x;
END;

# begin batch 5 of this query
BEGIN FOR BATCH 5

# begin load [SERIALIZABLE] batch 0 of it's "one"
START TRANSACTION load ISOLATION LEVEL SERIALIZABLE FOR BATCH 0 OF QUERY 'it\'s "one"';

# begin batch
BEGIN batch

# block commit 1
BEGIN FOR BATCH 12 OF QUERY 'q'; INSERT INTO t VALUES (1); COMMIT

# forget q
FORGET BATCH KEYS 'q'

# assert|1 = 1
ASSERT 1 = 1

# assert|CAST(a AS BOOLEAN) AND b = 'x;y'|as it|saying why's|now
assert CAST(a AS BOOLEAN) AND b = 'x;y' AS it MESSAGE 'why\'s' IMMEDIATE;

# assert no rows|(SELECT 1 AS x)|as no rows
ASSERT NO ROWS (SELECT 1 AS x) AS `no rows`

# show assertions
SHOW ASSERTIONS

# begin saying it's late
BEGIN COMMENT "it's late"

# begin nightly [SERIALIZABLE] saying why job=load run=7
BEGIN nightly ISOLATION LEVEL SERIALIZABLE COMMENT 'why' TAGS ('run' = '7', 'job' = 'load');

# begin a=b
START TRANSACTION TAGS ('a'='b')

# begin comment
BEGIN comment

# begin tags
BEGIN TRANSACTION tags

# begin batch 3 of q saying b
BEGIN FOR BATCH 3 OF QUERY 'q' COMMENT 'b'

# block commit 1
BEGIN COMMENT 'c' TAGS ('k' = 'v'); INSERT INTO t VALUES (1); COMMIT

# show all transactions
SHOW TRANSACTIONS ALL

# timeline
SHOW TIMELINE

# timeline last 10
show timeline last 10;

# timeline from 3 to 7
SHOW TIMELINE FROM 3 TO 7

# timeline from 3
SHOW TIMELINE FROM 3

# timeline to 7
SHOW TIMELINE TO 7

# begin [read only] as of version 12
BEGIN READ ONLY AS OF VERSION 12

# begin audit as of 2026-01-31 09:12:00 saying why
BEGIN audit AS OF TIMESTAMP '2026-01-31 09:12:00' COMMENT 'why';

# begin version [read write] as of version x
START TRANSACTION version READ WRITE AS OF VERSION x

# begin as of snapshot end of year
BEGIN AS OF SNAPSHOT 'end of year'

# begin snapshot as of snapshot snapshot
BEGIN snapshot AS OF SNAPSHOT snapshot;

# create snapshot eoy
CREATE SNAPSHOT eoy

# create snapshot before-load as of version 12 for 30 days saying why
CREATE SNAPSHOT 'before-load' AS OF VERSION 12 RETAIN 30 DAYS COMMENT 'why';

# create snapshot retain as of 2026-01-31 for 5 days
create snapshot `retain` as of timestamp '2026-01-31' retain 5 days

# create snapshot comment saying why
CREATE SNAPSHOT comment COMMENT 'why'

# drop snapshot eoy
DROP SNAPSHOT eoy

# drop snapshot eoy if exists
DROP SNAPSHOT IF EXISTS `eoy`;

# show snapshots
SHOW SNAPSHOTS

# verify database
VERIFY DATABASE;

# verify database as of version 12
verify database as of version 12

# verify database as of snapshot eoy
VERIFY DATABASE AS OF SNAPSHOT eoy

# revert t0123
REVERT TRANSACTION 't0123'

# revert t0123 keep keys dry run
revert transaction 't0123' keep keys dry run;

# restore DATABASE to version 12
RESTORE DATABASE TO VERSION 12

# What Delta would read as a table that is called so, which is `database` between backquotes, or TABLE database.
# restore DATABASE to version 12
RESTORE DATABASE TO VERSION AS OF 12;

# restore SCHEMA `sales` to snapshot eoy keep keys
RESTORE SCHEMA sales TO SNAPSHOT eoy KEEP KEYS

# restore SCHEMA `spark_catalog`.`sales` to 2026-01-31 09:12:00
RESTORE SCHEMA spark_catalog.sales TO TIMESTAMP AS OF '2026-01-31 09:12:00'

# restore TABLES (`a`, `s`.`b`, `delta`.`/lake/c`) to before t0123 dry run
RESTORE TABLES (a, s.b, delta.`/lake/c`) TO BEFORE TRANSACTION 't0123' DRY RUN

# restore TABLES (`tables`) to before t0123
restore tables (`tables`) before transaction 't0123'
