package io.lakestep.sql

/**
 * From text to plan.
 *
 * `LakestepParser` stands before Spark's parser and takes only what is Lakestep's: `TextParser`, and a part for
 * each line of Spark, in a source folder of its own (`scala-4.0`, `scala-4.1+`). `Statements` builds plans
 * from `sql-grammar/LakestepSql.g4`. `StatementTag` keeps what was typed, so that COMMIT can run it again.
 *
 * Guarantees: every text that Spark and Delta understand means to them what it meant without Lakestep.
 */
package object parse
