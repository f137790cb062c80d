package io.lakestep

/**
 * The protocol: how the staged commits of several tables become visible all at once, or never.
 *
 * [[Database]] names every step; PROTOCOL.md numbers them, and so does the first line of each file: pins
 * (3), stage (4), validate (5), order (6), publish and decide (7, 8), undo (9), abort (10), reads and writes
 * outside transactions (12), reruns (13). Owner and helper run the same code ([[Finish]]).
 *
 * Guarantees: before the order point nothing that anybody reads has changed; after it nothing but a
 * foreign conflict can fail a transaction, and any client can finish it. Outcomes are values. All of
 * [[Safeguards]] can be taken away by the simulation, which then finds an anomaly for each. Knows neither
 * Spark nor Delta. Begin with `Commit.scala`.
 */
package object commit
