package io.lakestep.sql.guard

import java.io.File
import java.lang.reflect.Modifier
import java.util.jar.JarFile

import scala.io.{Codec, Source}
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.analysis.{UnresolvedIdentifier, UnresolvedProcedure}
import org.apache.spark.sql.catalyst.plans.logical.{Call, CreateNamespace, LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.expressions.Attribute

import elsewhere.UnknownSideEffect
import io.lakestep.{Errors, Versions}

class CommandCatalogueSuite extends AnyFunSuite {

  private lazy val onClassPath: Set[String] = {
    val loader = getClass.getClassLoader
    System.getProperty("java.class.path").split(File.pathSeparator)
      .filter(_.endsWith(".jar"))
      .flatMap { path =>
        Using.resource(new JarFile(path)) {
          _.entries.asScala.map(_.getName)
            .filter(n => n.startsWith("org/apache/spark/sql/") || n.startsWith("io/delta/"))
            .filter(_.endsWith(".class"))
            .map(n => Class.forName(n.stripSuffix(".class").replace('/', '.'), false, loader))
            .filter(classOf[LogicalPlan].isAssignableFrom)
            .filterNot(c => Modifier.isAbstract(c.getModifiers))
            .map(_.getName)
            .toList
        }
      }
      .toSet
  }

  test("every plan class on the class path is listed") {
    assert(onClassPath.size > 350)
    val missing = onClassPath -- CommandCatalogue.entries.keySet
    assert(missing.isEmpty, missing.toSeq.sorted.mkString("\n"))
  }

  test("nothing is listed that does not exist, in the newest line or in an older one") {
    assume(Versions.spark.startsWith("4.2"))
    val older = Seq(
      "catalyst.analysis.ExecuteImmediateQuery",
      "catalyst.plans.logical.ShowNamespaces",
      "catalyst.plans.logical.TransformWithStateInPandas",
      "execution.streaming.OffsetHolder",
      "execution.streaming.StreamingExecutionRelation",
      "execution.streaming.StreamingRelation"
    ).map("org.apache.spark.sql." + _)
    assert(CommandCatalogue.entries.keySet -- onClassPath == older.toSet)
  }

  test("no class is listed twice, and the list is sorted") {
    val names = Using.resource(Source.fromResource("lakestep-commands.tsv")(Codec.UTF8)) {
      _.getLines().filterNot(_.startsWith("#")).map(_.takeWhile(_ != '\t')).toList
    }
    assert(names == names.distinct.sorted)
  }

  test("each reason has a text, and each text a reason") {
    val reasons = CommandCatalogue.entries.values.flatMap(_.reason).toSet + "UNKNOWN_COMMAND"
    val parameters = Map("statement" -> "DROP TABLE", "target" -> "t")
    reasons.foreach { reason =>
      val condition = s"LAKESTEP_UNSUPPORTED_IN_TRANSACTION.$reason"
      assert(Errors.message(condition, parameters).contains("DROP TABLE on t"))
      assert(Errors.sqlState(condition) == "0A000")
    }
    assert(CommandCatalogue.entries.values.forall(e => e.onlyIf.isEmpty || e.reason.isDefined))
  }

  test("a class that is not listed is refused, unless it is ours") {
    val own = CommandCatalogueSuite.OwnNode()
    assert(!CommandCatalogue.entries.contains(own.getClass.getName))
    assert(CommandCatalogue.decide(own) == Decision.Harmless)
    val foreign = UnknownSideEffect()
    assert(CommandCatalogue.decide(foreign) == Decision.Refused("UNKNOWN_COMMAND"))
  }

  test("what Spark does during the analysis is refused before it") {
    val call = Call(UnresolvedProcedure(Seq("cat", "system", "p")), Nil)
    assert(CommandCatalogue.decideEarly(call).contains(Decision.Refused("PROCEDURE")))
    val namespace = CreateNamespace(UnresolvedIdentifier(Seq("n")), ifNotExists = false, Map.empty)
    assert(CommandCatalogue.decideEarly(namespace).isEmpty)
    assert(CommandCatalogue.decide(namespace) == Decision.Refused("NAMESPACE"))
  }
}

object CommandCatalogueSuite {
  final case class OwnNode() extends LeafNode {
    override def output: Seq[Attribute] = Nil
  }
}
