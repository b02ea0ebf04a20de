// The version of this build, and the commit that it was made from.
#pragma once

#include <string>
#include <string_view>

namespace sepal {

// The first 12 digits of the git commit; empty where the build did not know it, as in a release archive. Only
// the programs link it (target sepal_commit), so a new commit recompiles one small file.
[[nodiscard]] std::string_view git_commit();

// What --version prints: "sepald 1.0.0 (commit 0123456789ab)".
[[nodiscard]] inline std::string version_line(std::string_view program) {
  std::string line(program);
  line += " " SEPAL_VERSION;
  if (!git_commit().empty()) line.append(" (commit ").append(git_commit()).append(")");
  return line;
}

}  // namespace sepal
