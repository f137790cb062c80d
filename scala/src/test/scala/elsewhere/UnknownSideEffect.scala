package elsewhere

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LeafNode

/** A plan node of a library that nobody has judged. */
final case class UnknownSideEffect() extends LeafNode {
  override def output: Seq[Attribute] = Nil
}
