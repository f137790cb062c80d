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
