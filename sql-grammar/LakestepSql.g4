/*
 * The statements that Lakestep adds to Spark SQL. The last alternative of singleStatement passes
 * every other text through to Delta's and Spark's parsers, untouched.
 */
grammar LakestepSql;

options { caseInsensitive = true; }

singleStatement
    : begin (SEMICOLON+ piece)* SEMICOLON+ end=blockEnd SEMICOLON* EOF      #transactionBlock
    | begin SEMICOLON+ piece (SEMICOLON+ piece)* SEMICOLON* EOF             #unfinishedBlock
    | begin SEMICOLON* EOF                                                  #beginTransaction
    | COMMIT (WORK | TRANSACTION)? SEMICOLON* EOF                           #commitTransaction
    | ROLLBACK (WORK | TRANSACTION)? SEMICOLON* EOF                         #rollbackTransaction
    | SAVEPOINT name=identifier SEMICOLON* EOF                              #setSavepoint
    | rollbackTo SEMICOLON* EOF                                             #rollbackToSavepoint
    | RELEASE SAVEPOINT? name=identifier SEMICOLON* EOF                     #releaseSavepoint
    | BEGIN atomic=ATOMIC .*? EOF                                           #atomicBlock
    | SET TRANSACTION characteristics SEMICOLON* EOF                        #setTransaction
    | SHOW TRANSACTIONS all=ALL? SEMICOLON* EOF                             #showTransactions
    | SHOW TIMELINE timelineRange? SEMICOLON* EOF                           #showTimeline
    | (DESCRIBE | DESC) TRANSACTION id=STRING SEMICOLON* EOF                #describeTransaction
    | EXPLAIN CONFLICT id=STRING? SEMICOLON* EOF                            #explainConflict
    | VACUUM TRANSACTIONS (RETAIN hours=identifier HOURS)? SEMICOLON* EOF   #vacuumTransactions
    | VACUUM DROPPED TABLES (RETAIN hours=identifier HOURS)? SEMICOLON* EOF #vacuumDroppedTables
    | RECOVER SEMICOLON* EOF                                                #recover
    | UNDROP TABLE target=qualifiedName SEMICOLON* EOF                      #undropTable
    | SHOW DROPPED TABLES SEMICOLON* EOF                                    #showDroppedTables
    | CREATE SNAPSHOT name=snapshotName asOf? (RETAIN days=identifier DAYS)? (COMMENT comment=STRING)?
      SEMICOLON* EOF                                                        #createSnapshot
    | DROP SNAPSHOT (IF EXISTS)? name=snapshotName SEMICOLON* EOF           #dropSnapshot
    | SHOW SNAPSHOTS SEMICOLON* EOF                                         #showSnapshots
    | VERIFY DATABASE asOf? SEMICOLON* EOF                                  #verifyDatabase
    | REVERT TRANSACTION id=STRING undoModes SEMICOLON* EOF                 #revertTransaction
    | RESTORE restored (TO restorePoint | TO? before) undoModes SEMICOLON* EOF #restore
    | FORGET BATCH KEYS query=STRING SEMICOLON* EOF                         #forgetBatchKeys
    | ASSERT (no=NO ROWS)? what=asserted (AS name=identifier)? (MESSAGE message=STRING)? now=IMMEDIATE?
      SEMICOLON* EOF                                                        #assertion
    | SHOW ASSERTIONS SEMICOLON* EOF                                        #showAssertions
    | .*? EOF                                                               #passThrough
    ;

begin
    : BEGIN (TRANSACTION | WORK)? name=identifier? characteristics? asOf? batch? labels?
    | START TRANSACTION name=identifier? characteristics? asOf? batch? labels?
    ;

/* An earlier state of the database. */
asOf
    : AS OF VERSION number=identifier
    | AS OF TIMESTAMP time=STRING
    | AS OF SNAPSHOT snapshot=snapshotName
    ;

/* A table of Delta's own RESTORE that is called so stays reachable: RESTORE TABLE database TO …, or in backquotes. */
restored
    : DATABASE                                                              #restoredDatabase
    | SCHEMA name=qualifiedName                                             #restoredSchema
    | TABLES LEFT_PAREN qualifiedName (COMMA qualifiedName)* RIGHT_PAREN    #restoredTables
    ;

restorePoint
    : VERSION (AS OF)? number=identifier
    | TIMESTAMP (AS OF)? time=STRING
    | SNAPSHOT snapshot=snapshotName
    ;

before
    : BEFORE TRANSACTION id=STRING
    ;

undoModes
    : keep=keepKeys? dry=dryRun?
    ;

keepKeys
    : KEEP KEYS
    ;

dryRun
    : DRY RUN
    ;

snapshotName
    : identifier
    | STRING
    ;

labels
    : COMMENT comment=STRING tags?
    | tags
    ;

tags
    : TAGS LEFT_PAREN tag (COMMA tag)* RIGHT_PAREN
    ;

tag
    : key=STRING EQ value=STRING
    ;

/* Without a query it is that whose batch is running. */
batch
    : FOR BATCH number=identifier (OF QUERY query=STRING)?
    ;

/* An expression or a query of Spark's. */
asserted
    : .+?
    ;

characteristics
    : characteristic (COMMA? characteristic)*
    ;

characteristic
    : ISOLATION LEVEL level                                                 #isolationMode
    | READ ONLY                                                             #readOnlyMode
    | READ WRITE                                                            #readWriteMode
    ;

/* The weaker levels of the standard permit what SNAPSHOT excludes, so they are given SNAPSHOT. */
level
    : SERIALIZABLE                                                          #serializableLevel
    | (SNAPSHOT | REPEATABLE READ | READ COMMITTED | READ UNCOMMITTED)      #snapshotLevel
    ;

timelineRange
    : LAST last=identifier
    | FROM from=identifier (TO to=identifier)?
    | TO to=identifier
    ;

blockEnd
    : COMMIT (WORK | TRANSACTION)?                                          #blockCommit
    | ROLLBACK (WORK | TRANSACTION)?                                        #blockRollback
    ;

rollbackTo
    : ROLLBACK (WORK | TRANSACTION)? TO SAVEPOINT? name=identifier
    ;

/* One statement of a block: a Spark script with its own semicolons, or everything up to the next one. */
piece
    : script
    | rollbackTo
    | token=~(SEMICOLON | BEGIN | COMMIT | ROLLBACK | START) (~SEMICOLON)*
    ;

script
    : BEGIN (NOT ATOMIC)? scriptPart* END (~SEMICOLON)*
    ;

scriptPart
    : nestedScript
    | CASE scriptPart* END CASE?
    | END (IF | WHILE | FOR | LOOP | REPEAT)
    | ~(BEGIN | CASE | END)
    ;

nestedScript
    : BEGIN (NOT ATOMIC)? scriptPart* END
    ;

qualifiedName
    : identifier (DOT identifier)*
    ;

identifier
    : IDENTIFIER
    | BACKQUOTED_IDENTIFIER
    | nonReserved
    ;

/* Keywords of this grammar that may name a transaction. */
nonReserved
    : ALL | ASSERT | ASSERTIONS | BATCH | BEFORE | COMMENT | COMMITTED | CONFLICT | CREATE | DATABASE | DAYS | DESC | DESCRIBE
    | DROP | DROPPED | DRY | EXISTS | EXPLAIN | FORGET | FROM | HOURS | IMMEDIATE | ISOLATION | KEEP | KEYS | LAST | LEVEL | MESSAGE
    | NO | OF | ONLY | QUERY | READ | RECOVER | RELEASE | REPEAT | REPEATABLE | RESTORE | RETAIN | REVERT | ROWS | RUN | SAVEPOINT
    | SCHEMA | SERIALIZABLE | SET | SHOW | SNAPSHOT
    | SNAPSHOTS | START | TABLE | TABLES | TAGS | TIMELINE | TIMESTAMP | TO | TRANSACTIONS | UNCOMMITTED | UNDROP | VACUUM | VERIFY
    | VERSION | WRITE
    ;

ALL: 'ALL';
AS: 'AS';
ASSERT: 'ASSERT';
ASSERTIONS: 'ASSERTIONS';
ATOMIC: 'ATOMIC';
BATCH: 'BATCH';
BEFORE: 'BEFORE';
BEGIN: 'BEGIN';
CASE: 'CASE';
COMMENT: 'COMMENT';
COMMIT: 'COMMIT';
COMMITTED: 'COMMITTED';
CONFLICT: 'CONFLICT';
CREATE: 'CREATE';
DATABASE: 'DATABASE';
DAYS: 'DAYS';
DESC: 'DESC';
DESCRIBE: 'DESCRIBE';
DROP: 'DROP';
DROPPED: 'DROPPED';
DRY: 'DRY';
END: 'END';
EXISTS: 'EXISTS';
EXPLAIN: 'EXPLAIN';
FOR: 'FOR';
FORGET: 'FORGET';
FROM: 'FROM';
HOURS: 'HOURS';
IF: 'IF';
IMMEDIATE: 'IMMEDIATE';
ISOLATION: 'ISOLATION';
KEEP: 'KEEP';
KEYS: 'KEYS';
LAST: 'LAST';
LEVEL: 'LEVEL';
LOOP: 'LOOP';
MESSAGE: 'MESSAGE';
NO: 'NO';
NOT: 'NOT';
OF: 'OF';
ONLY: 'ONLY';
QUERY: 'QUERY';
READ: 'READ';
RECOVER: 'RECOVER';
RELEASE: 'RELEASE';
REPEAT: 'REPEAT';
REPEATABLE: 'REPEATABLE';
RESTORE: 'RESTORE';
RETAIN: 'RETAIN';
REVERT: 'REVERT';
ROLLBACK: 'ROLLBACK';
ROWS: 'ROWS';
RUN: 'RUN';
SAVEPOINT: 'SAVEPOINT';
SCHEMA: 'SCHEMA';
SERIALIZABLE: 'SERIALIZABLE';
SET: 'SET';
SHOW: 'SHOW';
SNAPSHOT: 'SNAPSHOT';
SNAPSHOTS: 'SNAPSHOTS';
START: 'START';
TABLE: 'TABLE';
TABLES: 'TABLES';
TAGS: 'TAGS';
TIMELINE: 'TIMELINE';
TIMESTAMP: 'TIMESTAMP';
TO: 'TO';
TRANSACTION: 'TRANSACTION';
TRANSACTIONS: 'TRANSACTIONS';
UNCOMMITTED: 'UNCOMMITTED';
UNDROP: 'UNDROP';
VACUUM: 'VACUUM';
VERIFY: 'VERIFY';
VERSION: 'VERSION';
WHILE: 'WHILE';
WORK: 'WORK';
WRITE: 'WRITE';

COMMA: ',';
DOT: '.';
EQ: '=';
LEFT_PAREN: '(';
RIGHT_PAREN: ')';
SEMICOLON: ';';

STRING
    : '\'' ( ~('\'' | '\\') | ('\\' .) | '\'\'' )* '\''
    | '"' ( ~('"' | '\\') | ('\\' .) | '""' )* '"'
    | 'R\'' ~'\''* '\''
    | 'R"' ~'"'* '"'
    ;

IDENTIFIER
    : (LETTER | DIGIT | '_')+
    ;

BACKQUOTED_IDENTIFIER
    : '`' ( ~'`' | '``' )* '`'
    ;

fragment DIGIT: [0-9];
fragment LETTER: [A-Z];

SIMPLE_COMMENT
    : '--' ('\\\n' | ~[\r\n])* '\r'? '\n'? -> channel(HIDDEN)
    ;

BRACKETED_COMMENT
    : '/*' ( BRACKETED_COMMENT | . )*? '*/' -> channel(HIDDEN)
    ;

WS
    : [ \r\n\t\f\u00A0\u3000]+ -> channel(HIDDEN)
    ;

/* Everything else is one token a character: a text that is not ours is never refused here. */
OTHER
    : .
    ;
