package io.lakestep.transaction

import java.security.PrivilegedAction
import java.util.concurrent.{CompletableFuture, TimeUnit}

import org.apache.hadoop.security.UserGroupInformation
import org.scalatest.funsuite.AnyFunSuite

class WorkOfOtherThreadsSuite extends AnyFunSuite {

  private def workedAs(user: UserGroupInformation): String = {
    val name = new CompletableFuture[String]
    val add: PrivilegedAction[Unit] = () =>
      Databases.background(Seq { () =>
        name.complete(UserGroupInformation.getCurrentUser.getShortUserName); ()
      })
    user.doAs(add)
    name.get(60, TimeUnit.SECONDS)
  }

  test("what follows COMMIT is done as the user whose session has committed") {
    val own = UserGroupInformation.getLoginUser
    // More than there are threads, so that each has worked for both.
    for (number <- 1 to 20) {
      val other = UserGroupInformation.createRemoteUser(s"other$number")
      assert(workedAs(other) == s"other$number")
      assert(workedAs(own) == own.getShortUserName)
    }
  }
}
