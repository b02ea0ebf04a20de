// Where a server is: redis://[USER@]HOST[:PORT][/DB], the same with rediss:// for TLS, or
// unix://[USER@]/PATH[?db=DB].
#pragma once

#include <sepal/base/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::tools {

struct RedisAddress {
  std::string host;  // empty: a UNIX socket at `path`
  std::uint16_t port = 6379;
  std::string path;
  std::string user;  // empty: the default one
  std::optional<std::uint32_t> database;
  bool tls = false;

  // For messages: "127.0.0.1:6379".
  [[nodiscard]] std::string text() const;
};

// Errors: out_of_range, with a sentence. A password in the address is refused: other users of the machine can
// see it.
Result<RedisAddress> parse_address(std::string_view text);

}  // namespace sepal::tools
