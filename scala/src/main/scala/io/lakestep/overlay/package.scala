package io.lakestep

/**
 * A Delta table as one transaction sees it: a file system and a log store for `lakestep://`.
 *
 * [[OverlayPath]] names a table, a version and the transaction's staged commits; [[OverlayFileSystem]] shows
 * the log of the one with those of the other on top; [[OverlayLogStore]] stages what Delta commits there, and
 * [[Staging]] remembers it. [[BaseLogStore]] creates commits of base tables, and asks [[BaseWriteGuard]] first.
 *
 * Guarantees: nothing that goes through an overlay changes the table's own log; what a reader of an overlay
 * sees depends on the version and on what was staged alone. Delta and Spark run over it unchanged.
 * Begin with `OverlayPath.scala`.
 */
package object overlay
