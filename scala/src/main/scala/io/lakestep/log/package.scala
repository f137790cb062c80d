package io.lakestep

/**
 * One Delta table's log as data.
 *
 * [[TableRef]] is the address of a table and the only owner of its layout. [[Action]] is a line of a
 * commit; fields that this code does not know are carried unchanged. [[Flatten]] makes one commit of those
 * that a transaction staged, and [[OneCommit]] says beforehand which of them one commit cannot hold.
 * [[ForeignWriters]] is who else may write a table, [[ReadSet]] what was read of it.
 *
 * Guarantees: functions of their arguments but for [[TableLog]], which lists and reads; no Spark and no
 * class of Delta. What it takes a Delta log for is tested against Delta itself in `tests/`.
 * Begin with `Action.scala`.
 */
package object log
