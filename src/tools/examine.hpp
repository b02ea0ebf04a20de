// `sepal verify`, `sepal inspect`, `sepal salvage`: what an exit status and the lines of standard output are
// made of.
#pragma once

#include <filesystem>

namespace sepal::tools {

// The exit statuses.
inline constexpr int exit_good = 0;
inline constexpr int exit_refused = 1;  // damaged, or it could not be done
// 2 is the command line's.

struct VerifyRequest {
  std::filesystem::path directory;
};
int verify(const VerifyRequest& request);

struct InspectRequest {
  std::filesystem::path file;
  bool json = false;  // a line of JSON for each thing
};
int inspect(const InspectRequest& request);

struct SalvageRequest {
  std::filesystem::path directory;
  std::filesystem::path into;
};
int salvage(const SalvageRequest& request);

}  // namespace sepal::tools
