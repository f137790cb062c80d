package elsewhere

import java.util.{Collections, Iterator => JIterator}
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{Identifier, ProcedureCatalog}
import org.apache.spark.sql.connector.catalog.procedures.{
  BoundProcedure, ProcedureParameter, UnboundProcedure
}
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Another product's catalog with one procedure, which counts its calls. */
class ProcedureInCatalog extends ProcedureCatalog {
  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = ()
  override def name: String = "procedures"
  override def loadProcedure(ident: Identifier): UnboundProcedure = CountingProcedure
  def listProcedures(namespace: Array[String]): Array[Identifier] =
    Array(Identifier.of(namespace, "count"))
}

object CountingProcedure extends UnboundProcedure with BoundProcedure {
  val calls = new AtomicInteger
  override def name: String = "count"
  override def description: String = "counts its calls"
  override def bind(inputType: StructType): BoundProcedure = this
  override def parameters: Array[ProcedureParameter] = Array.empty
  override def isDeterministic: Boolean = false
  override def call(input: InternalRow): JIterator[Scan] = {
    calls.incrementAndGet()
    Collections.emptyIterator[Scan]
  }
}
