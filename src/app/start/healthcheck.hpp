// `sepald --healthcheck`: whether the sepald that runs with the same settings is alive and has loaded its
// data. docs/decisions/0032-healthcheck.md says what counts.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/settings/settings.hpp>

#include <string>
#include <string_view>

namespace sepal::app {

// A line that says where it was asked and what it answered. Blocks, at most a few seconds for each address
// and step. Errors: not_found, if no server uses the data directory; io, if no address answers, or if the
// answer says that the server serves nothing yet.
Result<std::string> check_health(const settings::Settings& settings);

// What an answer to PING says about the server. An error reply that only a running, loaded sepald gives is
// good news as well.
struct Health {
  bool good = false;
  std::string_view meaning;
};
[[nodiscard]] Health health_of(std::string_view reply);

}  // namespace sepal::app
