import sbt._
import sbt.internal.inc.Analysis
import xsbti.compile.CompileAnalysis

/** Which source file uses which other one, as the compiler has seen it: imports do not show that. */
object FileGraph {

  /** Lines of two columns, both relative to the folder of sources. */
  def of(compiled: CompileAnalysis, sources: Seq[File], base: File): Seq[String] = {
    val relations = compiled.asInstanceOf[Analysis].relations
    def files(className: String) = relations.definesClass(className)
    val edges = for {
      from <- relations.allSources.toSeq
      name <- relations.classNames(from)
      dependency <- relations.internalClassDeps(name)
      to <- files(dependency)
      if to != from
    } yield (relative(from.id, sources, base), relative(to.id, sources, base))
    edges.distinct.sorted.map { case (from, to) => s"$from\t$to" }
  }

  private def relative(id: String, sources: Seq[File], base: File): String = {
    val file = new File(id.replace("${BASE}", base.getPath))
    sources.flatMap(IO.relativize(_, file)).headOption.getOrElse(s"generated/${file.getName}")
  }
}
