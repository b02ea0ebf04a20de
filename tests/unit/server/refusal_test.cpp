#include "server/refusal.hpp"

#include "support/catch.hpp"

namespace sepal::server::refusal_test {

TEST_CASE("which addresses are on this machine") {
  for (const std::string_view text :
       {"127.0.0.1:1", "127.9.9.9:65535", "[::1]:6379", "[::ffff:127.0.0.1]:6379"}) {
    INFO(text);
    CHECK(is_loopback(text));
  }
  for (const std::string_view text :
       {"128.0.0.1:1", "1.127.0.0:1", "12.7.0.0:1", "[::1:2]:6379", "[fe80::1]:6379",
        "[::ffff:10.127.0.1]:6379", "[::127.0.0.1]:6379", "?:0", ""}) {
    INFO(text);
    CHECK_FALSE(is_loopback(text));
  }
}

}  // namespace sepal::server::refusal_test
