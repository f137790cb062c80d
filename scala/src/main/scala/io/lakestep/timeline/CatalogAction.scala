package io.lakestep.timeline

import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * A change of a catalog of table names that belongs to a transaction; see `Catalogs`. No statement
 * makes one yet.
 *
 * @param node with its `kind`; what else it holds depends on that
 */
final case class CatalogAction(node: ObjectNode) {
  def kind: String = node.path("kind").asText
}
