#include "app/client_log.hpp"

#include <string>

#include "support/catch.hpp"

namespace client_log_test {

using namespace sepal;

TEST_CASE("a client's text is logged printable and cut", "[app]") {
  CHECK(app::printable_line("a\nb\"c\x1b\xff") == "a?b'c??");
  CHECK(app::printable_line(std::string(app::client_text_bytes_max, 'x')).size() ==
        app::client_text_bytes_max);
  CHECK(app::printable_line(std::string(app::client_text_bytes_max + 1, 'x')).size() ==
        app::client_text_bytes_max);
}

}  // namespace client_log_test
