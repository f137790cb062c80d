package io.lakestep

/**
 * The one order of a database.
 *
 * [[Timeline]] puts entries and their outcomes, each once; [[TimelineEntry]] and `Outcome` are what they
 * say, [[TimelineCodec]] their bytes (PROTOCOL.md, section 1). [[TimelineView]] is what is known of all of
 * them, and `Checkpoints` keep that short. [[Conflict]] and [[Rule]] say why a transaction is not committed.
 *
 * Guarantees: entry n is put when n - 1 is there, and names its hash; a file that is damaged, of another
 * timeline or of a newer format is refused by its name, never skipped. Knows neither Spark nor Delta.
 * Begin with `Timeline.scala`.
 */
package object timeline
